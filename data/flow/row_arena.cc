#include "data/flow/row_arena.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>

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

RowArena::RowArena(const RowLayout& layout, std::size_t slots)
    : layout_(&layout),
      slots_(slots),
      owned_(std::make_unique_for_overwrite<std::byte[]>(slots * layout.bytes)),
      rows_(owned_.get()) {
  if (!layout.ragged.empty()) tails_.resize(slots);
}

RowArena::RowArena(const RowLayout& layout, std::size_t slots, std::byte* memory)
    : layout_(&layout), slots_(slots), rows_(memory) {}

void RowArena::grow(std::size_t slots) {
  if (slots <= slots_) return;
  if (!owned_) throw std::length_error("more rows wait than there are slots");
  const std::size_t more = std::max(slots, slots_ + slots_ / 8);
  auto rows = std::make_unique_for_overwrite<std::byte[]>(more * layout_->bytes);
  std::memcpy(rows.get(), rows_, slots_ * layout_->bytes);
  owned_ = std::move(rows);
  rows_ = owned_.get();
  if (!layout_->ragged.empty()) tails_.resize(more);
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
  for (std::size_t i = 0; i < slots.size() && !tails_.empty(); ++i) {
    if (slots[i] != ShuffleBuffer::left_before) {
      tails_[slots[i]] = RowTail(*layout_, columns, static_cast<std::size_t>(first_row) + i);
    }
  }
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
