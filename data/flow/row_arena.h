#pragma once
// Rows that wait, each in a slot. A row's values lie side by side, so it takes a few cache lines to write it and to
// read it, wherever its slot is. Columns are turned into rows in blocks that stay in the first cache. Where there are
// ragged columns, a slot ends with the number of its tail's first piece.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "data/base/row_layout.h"
#include "data/base/tail_heap.h"

namespace dtrain::data {

class RowArena {
 public:
  // Rows of write() at a time.
  static constexpr std::int64_t block_rows = 128;

  static std::size_t slot_bytes(const RowLayout& layout) {
    return layout.bytes + (layout.ragged.empty() ? 0 : sizeof(TailHeap::Number));
  }

  // Has memory for `slots` rows. The kernel gives it when it is first written to. `tail_bytes`: of a row, on average.
  RowArena(const RowLayout& layout, std::size_t slots, std::size_t tail_bytes);
  // The slots are in this memory, and there are never more, and the tails are in `tails`. Both must outlive the arena.
  // Another arena over them can read what this one writes.
  RowArena(const RowLayout& layout, std::size_t slots, std::size_t tail_bytes, std::byte* memory,
           std::span<std::byte> tails);

  // There are `slots` slots from now on, at least. Throws std::length_error if there cannot be as many; so does
  // write().
  void grow(std::size_t slots);
  // Row first_row + i of the columns goes to slots[i], or nowhere if that is ShuffleBuffer::left_before. At most
  // block_rows.
  void write(const std::vector<ColumnSpan>& columns, std::int64_t first_row, std::span<const std::uint32_t> slots);
  // The part of a tensor that each of the slots has, one after the other.
  void read(Piece tensor, std::span<const std::uint32_t> slots, std::byte* to) const;
  // Appends the slot's tail, if there are ragged columns.
  void read_tail(std::uint32_t slot, std::vector<std::byte>& to) const;
  // These slots' rows have left.
  void drop(std::span<const std::uint32_t> slots);

 private:
  void write_tails(const std::vector<ColumnSpan>& columns, std::int64_t first_row,
                   std::span<const std::uint32_t> slots);
  std::byte* row(std::uint32_t slot) const { return rows_ + slot * slot_bytes_; }

  const RowLayout* layout_;
  std::size_t slots_, slot_bytes_;
  std::unique_ptr<std::byte[]> owned_;
  std::byte* rows_;  // owned_, or memory of others
  TailHeap heap_;
  std::vector<TailHeap::Tail> tails_;  // that this arena has written, by slot, if there are ragged columns
};

}  // namespace dtrain::data
