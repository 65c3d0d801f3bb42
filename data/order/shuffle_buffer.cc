#include "data/order/shuffle_buffer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace dtrain::data {
namespace {

constexpr std::uint32_t no_slot = UINT32_MAX;

// The buckets that can have rows at the same time.
std::size_t buckets_at_once(const RowOrder& order) {
  return std::bit_ceil(static_cast<std::size_t>(order.spread() / RowOrder::bucket_rows + 2));
}

}  // namespace

ShuffleBuffer::ShuffleBuffer(const RowOrder& order, std::int64_t position)
    : order_(&order),
      left_(position),
      heads_(buckets_at_once(order), no_slot),
      heads_mask_(heads_.size() - 1),
      free_(no_slot) {
  const RowOrder::Start start = order.start(position);
  bucket_ = start.bucket;
  skip_ = start.skip;
  next_row_ = start.first_row;
  const auto expected = static_cast<std::size_t>(expected_slots(order));
  keys_.reserve(expected);
  next_.reserve(expected);
}

std::int64_t ShuffleBuffer::expected_slots(const RowOrder& order) {
  if (order.is_whole_set()) return order.rows();
  const std::int64_t waiting = order.spread() / 3;
  const auto deviation = static_cast<std::int64_t>(std::sqrt(static_cast<double>(waiting)));
  return std::min(order.rows(), waiting + 8 * deviation + 2 * RowOrder::bucket_rows);
}

std::uint32_t ShuffleBuffer::take_slot() {
  if (free_ == no_slot) {
    keys_.push_back(0);
    next_.push_back(no_slot);
    return static_cast<std::uint32_t>(keys_.size() - 1);
  }
  const std::uint32_t slot = free_;
  free_ = next_[slot];
  return slot;
}

void ShuffleBuffer::release(std::uint32_t slot) {
  next_[slot] = free_;
  free_ = slot;
}

void ShuffleBuffer::enter(std::int64_t count, std::vector<std::uint32_t>& slots) {
  constexpr std::uint64_t in_bucket = (std::uint64_t{1} << (RowOrder::bucket_bits + RowOrder::fraction_bits)) - 1;
  slots.clear();
  for (const std::int64_t end = next_row_ + count; next_row_ < end; ++next_row_) {
    const std::uint64_t key = order_->key(next_row_);
    const std::int64_t bucket = RowOrder::bucket_of(key);
    if (bucket < bucket_) {
      slots.push_back(left_before);
      continue;
    }
    const std::uint32_t slot = take_slot();
    std::uint32_t& head = head_of(bucket);
    keys_[slot] = static_cast<std::uint32_t>(key & in_bucket);
    next_[slot] = head;
    head = slot;
    slots.push_back(slot);
  }
}

// By counting the whole parts of the keys, then by insertion, which finds nearly all in place. Rows with the same key
// keep the order in which they entered, whatever their slots.
void ShuffleBuffer::sort_bucket(std::uint32_t head) {
  std::array<std::uint32_t, RowOrder::bucket_rows> ends{};
  std::uint32_t size = 0;
  for (std::uint32_t slot = head; slot != no_slot; slot = next_[slot], ++size) {
    ++ends[keys_[slot] >> RowOrder::fraction_bits];
  }
  std::uint32_t sum = 0;
  for (std::uint32_t& end : ends) end = sum += end;
  sorted_.resize(size);
  for (std::uint32_t slot = head; slot != no_slot; slot = next_[slot]) {
    sorted_[--ends[keys_[slot] >> RowOrder::fraction_bits]] = {keys_[slot], slot};
  }
  for (std::size_t i = 1; i < sorted_.size(); ++i) {
    const Row row = sorted_[i];
    std::size_t at = i;
    for (; at > 0 && sorted_[at - 1].key > row.key; --at) sorted_[at] = sorted_[at - 1];
    sorted_[at] = row;
  }
}

void ShuffleBuffer::emit(std::vector<std::uint32_t>& slots) {
  slots.clear();
  std::uint32_t& head = head_of(bucket_++);
  sort_bucket(head);
  head = no_slot;
  for (const Row& row : sorted_) {
    if (skip_ > 0) {
      --skip_;
      release(row.slot);
    } else {
      slots.push_back(row.slot);
    }
  }
  left_ += static_cast<std::int64_t>(slots.size());
}

}  // namespace dtrain::data
