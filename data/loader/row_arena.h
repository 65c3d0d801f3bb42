#pragma once
// Rows that wait, each in a slot. A row's values lie side by side, so it takes a few cache lines to write it and to
// read it, wherever its slot is. Columns are turned into rows in blocks that stay in the first cache.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "data/base/row_layout.h"

namespace dtrain::data {

class RowArena {
 public:
  // Rows of write() at a time.
  static constexpr std::int64_t block_rows = 128;

  // Has memory for `slots` rows. The kernel gives it when it is first written to.
  RowArena(const RowLayout& layout, std::size_t slots);

  // There are `slots` slots from now on, at least.
  void grow(std::size_t slots);
  // Row first_row + i of the columns goes to slots[i], or nowhere if that is ShuffleBuffer::left_before. At most
  // block_rows.
  void write(const std::vector<const std::byte*>& columns, std::int64_t first_row,
             std::span<const std::uint32_t> slots);
  // The part of a tensor that each of the slots has, one after the other.
  void read(Piece tensor, std::span<const std::uint32_t> slots, std::byte* to) const;

 private:
  std::byte* row(std::uint32_t slot) const { return rows_.get() + slot * layout_->bytes; }

  const RowLayout* layout_;
  std::size_t slots_;
  std::unique_ptr<std::byte[]> rows_;
};

}  // namespace dtrain::data
