#pragma once
// Which rows wait for their turn, and in which slot each of them waits. Rows enter in the order of the stream and leave
// in the order of their keys, bucket by bucket. The caller keeps the rows' values, by slot. Pure.
//
//   while (!buffer.done()) {
//     while (buffer.next_row() < buffer.due()) buffer.enter(count, slots);   // write the rows' values to the slots
//     buffer.emit(slots);                                                    // the next rows of the order
//     for (const auto slot : slots) buffer.release(slot);                    // when the row's values have been read
//   }
#include <cstdint>
#include <vector>

#include "data/order/row_order.h"

namespace dtrain::data {

class ShuffleBuffer {
 public:
  // In place of a slot: the row left before the position.
  static constexpr std::uint32_t left_before = UINT32_MAX;

  // Begins with row `position` of the order, which must outlive the buffer.
  ShuffleBuffer(const RowOrder& order, std::int64_t position);

  // The row of the stream that enters next.
  std::int64_t next_row() const { return next_row_; }
  // Rows before this one must enter before the next emit().
  std::int64_t due() const { return order_->rows_until(bucket_); }
  bool done() const { return left_ == order_->rows(); }

  // The next `count` rows of the stream enter: `slots` gets a slot for each, or left_before. next_row() + count must
  // not exceed due().
  void enter(std::int64_t count, std::vector<std::uint32_t>& slots);
  // The slots of the rows that come next in the order. There may be none.
  void emit(std::vector<std::uint32_t>& slots);
  void release(std::uint32_t slot);

  // Slots so far: all are below this number.
  std::size_t slots() const { return keys_.size(); }
  // How many slots a window needs, but for rare cases: the mean and eight standard deviations, with two buckets.
  static std::int64_t expected_slots(const RowOrder& order);

 private:
  struct Row {
    std::uint32_t key;  // within its bucket
    std::uint32_t slot;
  };
  std::uint32_t take_slot();
  std::uint32_t& head_of(std::int64_t bucket) { return heads_[static_cast<std::size_t>(bucket) & heads_mask_]; }
  void sort_bucket(std::uint32_t head);

  const RowOrder* order_;
  std::int64_t bucket_, skip_, next_row_, left_;
  // A bucket is a list of slots, the newest first. Free slots are a list too.
  std::vector<std::uint32_t> keys_, next_, heads_;
  std::size_t heads_mask_;
  std::uint32_t free_;
  std::vector<Row> sorted_;
};

}  // namespace dtrain::data
