#pragma once
// Rows that wait, each in a slot. A row's values lie side by side, so it takes a few cache lines to write it and to
// read it, wherever its slot is. Columns are turned into rows in blocks that stay in the first cache.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "data/base/row_layout.h"
#include "data/base/row_tail.h"

namespace dtrain::data {

class RowArena {
 public:
  // Rows of write() at a time.
  static constexpr std::int64_t block_rows = 128;

  // Has memory for `slots` rows. The kernel gives it when it is first written to.
  RowArena(const RowLayout& layout, std::size_t slots);
  // The slots are in this memory, which must outlive the arena, and there are never more. Without ragged columns.
  RowArena(const RowLayout& layout, std::size_t slots, std::byte* memory);

  // There are `slots` slots from now on, at least. Throws std::length_error if there cannot be as many.
  void grow(std::size_t slots);
  // Row first_row + i of the columns goes to slots[i], or nowhere if that is ShuffleBuffer::left_before. At most
  // block_rows.
  void write(const std::vector<ColumnSpan>& columns, std::int64_t first_row, std::span<const std::uint32_t> slots);
  // The part of a tensor that each of the slots has, one after the other.
  void read(Piece tensor, std::span<const std::uint32_t> slots, std::byte* to) const;
  // What the slot has of the ragged columns. It is the caller's from now on.
  RowTail take_tail(std::uint32_t slot) { return std::move(tails_[slot]); }
  // These slots' rows have left.
  void drop_tails(std::span<const std::uint32_t> slots) {
    for (std::size_t i = 0; i < slots.size() && !tails_.empty(); ++i) tails_[slots[i]] = {};
  }

 private:
  std::byte* row(std::uint32_t slot) const { return rows_ + slot * layout_->bytes; }

  const RowLayout* layout_;
  std::size_t slots_;
  std::unique_ptr<std::byte[]> owned_;
  std::byte* rows_;             // owned_, or memory of others
  std::vector<RowTail> tails_;  // by slot, if there are ragged columns
};

}  // namespace dtrain::data
