#pragma once
// How many rows a window of bytes lets wait. Pure.
#include <algorithm>
#include <cstdint>

#include "data/order/row_order.h"

namespace dtrain::data {

// What the shuffle keeps for a row that waits, beside the row: its key and a link.
inline constexpr std::int64_t bytes_beside_row = 8;

// RowOrder's window for `window_bytes`: as many waiting rows as fit beside the largest row group, which is decoded as a
// whole, and the bucket that leaves. 0: too small.
constexpr std::int64_t window_rows(std::int64_t window_bytes, std::int64_t row_bytes, std::int64_t largest_group_rows,
                                   std::int64_t rows) {
  const std::int64_t waiting = (window_bytes - largest_group_rows * row_bytes) / (row_bytes + bytes_beside_row);
  if (waiting >= rows) return RowOrder::whole_set;
  if (waiting < 2 * RowOrder::bucket_rows) return 0;
  return std::min(waiting - RowOrder::bucket_rows, RowOrder::window_max);
}

// The least window_bytes that is not too small.
constexpr std::int64_t window_bytes_min(std::int64_t row_bytes, std::int64_t largest_group_rows, std::int64_t rows) {
  const std::int64_t waiting = std::min(rows, 2 * RowOrder::bucket_rows);
  return largest_group_rows * row_bytes + waiting * (row_bytes + bytes_beside_row);
}

}  // namespace dtrain::data
