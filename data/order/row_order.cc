#include "data/order/row_order.h"

#include <algorithm>
#include <utility>

namespace dtrain::data {
namespace {

// Uniform in [0, bound): draws are repeated that would make small numbers likelier.
std::uint64_t draw_below(std::uint64_t key, std::uint64_t& counter, std::uint64_t bound) {
  const std::uint64_t unbiased = UINT64_MAX - UINT64_MAX % bound;
  std::uint64_t value = random_bits(key, counter++);
  while (value >= unbiased) value = random_bits(key, counter++);
  return value % bound;
}

void permute(std::vector<RowOrder::Turn>& turns, std::uint64_t key) {
  std::uint64_t counter = 0;
  for (std::size_t i = turns.size(); i > 1; --i) std::swap(turns[i - 1], turns[draw_below(key, counter, i)]);
}

}  // namespace

RowOrder::RowOrder(std::span<const std::int64_t> group_rows, std::uint64_t seed, std::uint64_t epoch,
                   std::int64_t window) {
  const std::uint64_t epoch_key = random_bits(random_bits(seed, 0), epoch);
  row_key_ = random_bits(epoch_key, 0);
  for (std::size_t group = 0; group < group_rows.size(); ++group) {
    rows_ += group_rows[group];
    if (group_rows[group] > 0) turns_.push_back({static_cast<std::int64_t>(group), 0, group_rows[group]});
  }
  if (window > 0) permute(turns_, random_bits(epoch_key, 1));
  std::int64_t first = 0;
  for (Turn& turn : turns_) turn.first = std::exchange(first, first + turn.rows);
  whole_set_ = window > 0 && window >= rows_;
  spread_ = whole_set_ ? rows_ : 3 * window;
}

std::int64_t RowOrder::rows_until(std::int64_t bucket) const {
  return whole_set_ ? rows_ : std::min(rows_, (bucket + 1) * bucket_rows);
}

std::int64_t RowOrder::first_row_of(std::int64_t bucket) const {
  return whole_set_ ? 0 : std::clamp(bucket * bucket_rows - spread_, std::int64_t{0}, rows_);
}

// Bucket b begins with position b * 1024 or an earlier one, because a key is never below the row's place. Keys are less
// than a spread above it, so the bucket that is sought begins less than a spread after bucket position / 1024.
RowOrder::Start RowOrder::start(std::int64_t position) const {
  const std::int64_t lowest = whole_set_ ? 0 : position / bucket_rows;
  const std::int64_t begin = first_row_of(lowest);
  const std::int64_t end = whole_set_ ? rows_ : std::min(rows_, position + spread_ + 2 * bucket_rows);
  std::vector<std::int64_t> counts(static_cast<std::size_t>((end + spread_) / bucket_rows - lowest + 1));
  std::int64_t before = begin;
  for (std::int64_t row = begin; row < end; ++row) {
    const std::int64_t bucket = bucket_of(key(row));
    if (bucket < lowest) {
      ++before;
    } else {
      ++counts[static_cast<std::size_t>(bucket - lowest)];
    }
  }
  std::size_t step = 0;
  while (step < counts.size() && before + counts[step] <= position) before += counts[step++];
  const std::int64_t bucket = lowest + static_cast<std::int64_t>(step);
  return {bucket, position - before, first_row_of(bucket)};
}

}  // namespace dtrain::data
