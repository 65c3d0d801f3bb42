#include "data/flow/row_arena.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "data/order/shuffle_buffer.h"

namespace dtrain::data {
namespace {

// `bytes` of a size that the compiler knows, where it is one of the common ones: a move instead of a call.
template <typename Copy>
void with_size(std::size_t bytes, const Copy& copy) {
  switch (bytes) {
    case 1:
      return copy(std::integral_constant<std::size_t, 1>());
    case 2:
      return copy(std::integral_constant<std::size_t, 2>());
    case 4:
      return copy(std::integral_constant<std::size_t, 4>());
    case 8:
      return copy(std::integral_constant<std::size_t, 8>());
    default:
      return copy(bytes);
  }
}

}  // namespace

RowArena::RowArena(const RowLayout& layout, std::size_t slots, std::size_t tail_bytes)
    : layout_(&layout),
      slots_(slots),
      slot_bytes_(slot_bytes(layout)),
      owned_(std::make_unique_for_overwrite<std::byte[]>(slots * slot_bytes_)),
      rows_(owned_.get()),
      heap_(layout.ragged.size(), TailHeap::piece_for(tail_bytes)) {}

RowArena::RowArena(const RowLayout& layout, std::size_t slots, std::size_t tail_bytes, std::byte* memory,
                   std::span<std::byte> tails)
    : layout_(&layout),
      slots_(slots),
      slot_bytes_(slot_bytes(layout)),
      rows_(memory),
      heap_(layout.ragged.size(), TailHeap::piece_for(tail_bytes), tails) {}

void RowArena::grow(std::size_t slots) {
  if (slots <= slots_) return;
  if (!owned_) throw std::length_error("more rows wait than there are slots");
  const std::size_t more = std::max(slots, slots_ + slots_ / 8);
  auto rows = std::make_unique_for_overwrite<std::byte[]>(more * slot_bytes_);
  std::memcpy(rows.get(), rows_, slots_ * slot_bytes_);
  owned_ = std::move(rows);
  rows_ = owned_.get();
  slots_ = more;
}

void RowArena::write(const std::vector<ColumnSpan>& columns, std::int64_t first_row,
                     std::span<const std::uint32_t> slots) {
  struct Move {
    std::byte* to;
    std::size_t from;
  };
  std::array<Move, block_rows> moves;
  std::size_t count = 0;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i] != ShuffleBuffer::left_before)
      moves[count++] = {row(slots[i]), static_cast<std::size_t>(first_row) + i};
  }
  for (std::size_t column = 0; column < columns.size(); ++column) {
    const std::size_t offset = layout_->columns[column].offset;
    const std::byte* values = columns[column].values;
    if (layout_->columns[column].bytes == 0) continue;  // ragged
    with_size(layout_->columns[column].bytes, [&](auto bytes) {
      for (std::size_t i = 0; i < count; ++i) std::memcpy(moves[i].to + offset, values + moves[i].from * bytes, bytes);
    });
  }
  if (!layout_->ragged.empty()) write_tails(columns, first_row, slots);
}

void RowArena::write_tails(const std::vector<ColumnSpan>& columns, std::int64_t first_row,
                           std::span<const std::uint32_t> slots) {
  tails_.resize(slots_);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i] == ShuffleBuffer::left_before) continue;
    TailHeap::Tail& tail = tails_[slots[i]];
    heap_.free(std::exchange(tail, {}));  // of a row that left before the position
    tail = heap_.write(*layout_, columns, static_cast<std::size_t>(first_row) + i);
    std::memcpy(row(slots[i]) + layout_->bytes, &tail.first, sizeof tail.first);
  }
}

void RowArena::read_tail(std::uint32_t slot, std::vector<std::byte>& to) const {
  TailHeap::Number first;
  std::memcpy(&first, row(slot) + layout_->bytes, sizeof first);
  heap_.read(first, to);
}

void RowArena::drop(std::span<const std::uint32_t> slots) {
  if (layout_->ragged.empty()) return;
  for (const std::uint32_t slot : slots) heap_.free(std::exchange(tails_[slot], {}));
}

void RowArena::read(Piece tensor, std::span<const std::uint32_t> slots, std::byte* to) const {
  constexpr std::size_t ahead = 8, line = 64;
  with_size(tensor.bytes, [&](auto bytes) {
    for (std::size_t i = 0; i < slots.size(); ++i) {
      const std::byte* soon = row(slots[std::min(i + ahead, slots.size() - 1)]) + tensor.offset;
      for (std::size_t at = 0; at < std::min<std::size_t>(bytes, 4 * line); at += line) __builtin_prefetch(soon + at);
      std::memcpy(to + i * bytes, row(slots[i]) + tensor.offset, bytes);
    }
  });
}

}  // namespace dtrain::data
