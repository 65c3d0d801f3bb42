#pragma once
// The order of an epoch's rows: a function of seed, epoch, the table of row groups and the window, and of nothing else.
// Pure.
//
// The row groups are permuted. Their rows, one group after the other, are the stream. Row j of the stream gets the key
// j + d, where d is a delay, drawn from the row's number, of less than `spread` rows. The epoch's order is the order of
// the keys. So a row leaves when at most `spread` more rows have entered, and only rows that have entered and not left
// take memory. The delay is the smaller of two uniform draws: of all distributions with the same mean this one (a
// density that falls in a straight line) mixes most rows. Its mean is spread / 3, which is how many rows wait: the
// window.
//
//   stream   g2 g2 g2 g2 | g0 g0 g0 g0 | g1 ...      rows enter in this order
//   keys        [bucket 0 ][bucket 1 ][bucket 2 ...  and leave bucket by bucket, sorted in each
//
// Keys are numbers with 20 binary places. A bucket is a range of 1024 rows of keys. No row has a key below its own
// place in the stream, so a bucket is complete when the stream has reached its end.
#include <cstdint>
#include <span>
#include <vector>

#include "data/base/random_bits.h"

namespace dtrain::data {

class RowOrder {
 public:
  // The window that holds all rows: the order is then a uniform permutation of them.
  static constexpr std::int64_t whole_set = INT64_MAX;
  static constexpr int bucket_bits = 10, fraction_bits = 20;
  static constexpr std::int64_t bucket_rows = 1 << bucket_bits;
  // Rows that a window other than the whole set can have: three times as many are fewer than 2^32.
  static constexpr std::int64_t window_max = 1'000'000'000;
  static constexpr std::int64_t whole_set_max = UINT32_MAX;

  // `window`: how many rows wait on average; 0: rows in the order of the files; from the number of rows on: whole_set.
  // At most window_max, or whole_set_max rows in the set if it holds all.
  RowOrder(std::span<const std::int64_t> group_rows, std::uint64_t seed, std::uint64_t epoch, std::int64_t window);

  struct Turn {
    std::int64_t group;  // its number in the table
    std::int64_t first;  // the place of its first row in the stream
    std::int64_t rows;
  };
  // Row groups in the order of the stream, without the empty ones.
  const std::vector<Turn>& turns() const { return turns_; }
  std::int64_t rows() const { return rows_; }
  bool is_whole_set() const { return whole_set_; }
  // A delay is less than this many rows.
  std::int64_t spread() const { return spread_; }

  // The key of the stream's row `row`.
  std::uint64_t key(std::int64_t row) const {
    const std::uint64_t bits = random_bits_of(row);
    const std::uint64_t high = bits >> 32, low = bits & UINT32_MAX;
    const std::uint64_t drawn = whole_set_ || high < low ? high : low;  // of 2^32
    const std::uint64_t delay = drawn * static_cast<std::uint64_t>(spread_) >> (32 - fraction_bits);
    return (whole_set_ ? 0 : static_cast<std::uint64_t>(row) << fraction_bits) + delay;
  }
  static std::int64_t bucket_of(std::uint64_t key) {
    return static_cast<std::int64_t>(key >> (bucket_bits + fraction_bits));
  }
  // The row of the stream before which all rows must have entered so that the bucket is complete.
  std::int64_t rows_until(std::int64_t bucket) const;

  // Where to begin so that `position` rows of the order are left out.
  struct Start {
    std::int64_t bucket;     // the first bucket with a row that is still wanted
    std::int64_t skip;       // how many of its rows are not
    std::int64_t first_row;  // no row of the stream before this one is in it, or in a later bucket
  };
  // Looks at the keys of two spreads at most, and at no data. 0 <= position <= rows().
  Start start(std::int64_t position) const;

 private:
  std::uint64_t random_bits_of(std::int64_t row) const {
    return random_bits(row_key_, static_cast<std::uint64_t>(row));
  }
  std::int64_t first_row_of(std::int64_t bucket) const;

  std::uint64_t row_key_;
  std::int64_t rows_ = 0;
  std::int64_t spread_ = 0;
  bool whole_set_ = false;
  std::vector<Turn> turns_;
};

}  // namespace dtrain::data
