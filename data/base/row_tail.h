#pragma once
// What a row that waits has of the ragged columns: a block of its own, because rows differ in length. The block begins
// with the end of each column's bytes, as a distance from the first of them. Pure.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "data/base/row_layout.h"

namespace dtrain::data {

class RowTail {
 public:
  RowTail() = default;

  // Row `row` of the layout's ragged columns.
  RowTail(const RowLayout& layout, std::span<const ColumnSpan> columns, std::size_t row) {
    const std::size_t count = layout.ragged.size();
    const auto begin_of = [&](std::size_t i, std::size_t at) {
      return static_cast<std::size_t>(columns[layout.ragged[i]].offsets[at]) * layout.element[i];
    };
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < count; ++i) bytes += begin_of(i, row + 1) - begin_of(i, row);
    block_ = std::make_unique_for_overwrite<std::byte[]>(count * sizeof(std::uint64_t) + bytes);
    std::uint64_t end = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t from = begin_of(i, row), size = begin_of(i, row + 1) - from;
      if (size != 0) {
        std::memcpy(block_.get() + count * sizeof end + end, columns[layout.ragged[i]].values + from, size);
      }
      end += size;
      std::memcpy(block_.get() + i * sizeof end, &end, sizeof end);
    }
  }

  // The bytes of ragged column `i` of `count`.
  std::span<const std::byte> bytes(std::size_t i, std::size_t count) const {
    const std::uint64_t begin = i == 0 ? 0 : end_of(i - 1);
    return {block_.get() + count * sizeof begin + begin, end_of(i) - begin};
  }

 private:
  std::uint64_t end_of(std::size_t i) const {
    std::uint64_t end;
    std::memcpy(&end, block_.get() + i * sizeof end, sizeof end);
    return end;
  }

  std::unique_ptr<std::byte[]> block_;
};

}  // namespace dtrain::data
