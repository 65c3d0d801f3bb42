#pragma once
// The order of an epoch, as a list of rows of the stream.
#include <vector>

#include "data/order/shuffle_buffer.h"

namespace dtrain::data {

inline constexpr std::int64_t whole = RowOrder::whole_set;

struct Drained {
  std::vector<std::int64_t> rows;
  std::size_t slots = 0;     // that were in use at once
  std::int64_t entered = 0;  // rows that were read
};

// The rest of the order from `position` on, by entering at most `step` rows at a time.
inline Drained drained(const RowOrder& order, std::int64_t position = 0, std::int64_t step = 128) {
  ShuffleBuffer buffer(order, position);
  Drained all;
  std::vector<std::int64_t> row_of_slot;
  std::vector<std::uint32_t> slots;
  while (!buffer.done()) {
    while (buffer.next_row() < buffer.due()) {
      const std::int64_t first = buffer.next_row();
      buffer.enter(std::min(step, buffer.due() - first), slots);
      row_of_slot.resize(buffer.slots());
      for (std::size_t i = 0; i < slots.size(); ++i) {
        if (slots[i] != ShuffleBuffer::left_before) row_of_slot.at(slots[i]) = first + static_cast<std::int64_t>(i);
      }
      all.entered += static_cast<std::int64_t>(slots.size());
    }
    buffer.emit(slots);
    for (const std::uint32_t slot : slots) {
      all.rows.push_back(row_of_slot.at(slot));
      buffer.release(slot);
    }
  }
  all.slots = buffer.slots();
  return all;
}

}  // namespace dtrain::data
