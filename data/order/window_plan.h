#pragma once
// How many rows a window of bytes lets wait. Pure.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "data/base/tail_heap.h"
#include "data/order/row_order.h"

namespace dtrain::data {

// What the shuffle keeps for a row that waits, beside the row: its key and a link.
inline constexpr std::int64_t bytes_beside_row = 8;

// The same for a row with ragged columns: where its tail begins, twice, and where it ends; and for each such column
// the end of its bytes.
inline constexpr std::int64_t bytes_beside_tail = 3 * sizeof(TailHeap::Number), bytes_of_end = sizeof(std::uint64_t);

// What rows take in memory, by the files' footers.
struct RowBytes {
  std::int64_t waiting = 0;        // of a row that waits, on average, in the row group with the longest rows
  std::int64_t largest_group = 0;  // of the largest row group, decoded
  std::size_t largest = 0;         // its number
  std::int64_t tail = 0;           // of `waiting`: the ends and the bytes of the ragged columns

  bool operator==(const RowBytes&) const = default;
};

// `fixed`: bytes of a row without the ragged columns, of which there are `ragged`. `tails`: their bytes in each group.
inline RowBytes row_bytes(std::int64_t fixed, std::int64_t ragged, std::span<const std::int64_t> group_rows,
                          std::span<const std::int64_t> tails) {
  RowBytes result{.waiting = fixed};
  std::int64_t longest = 0;
  for (std::size_t group = 0; group < group_rows.size(); ++group) {
    const std::int64_t rows = group_rows[group];
    if (rows == 0) continue;
    longest = std::max(longest, (tails[group] + rows - 1) / rows);
    // Arrow has an offset for each row of a ragged column, and this library has one.
    const std::int64_t bytes = rows * (fixed + ragged * 2 * bytes_of_end) + tails[group];
    if (bytes > result.largest_group) {
      result.largest_group = bytes;
      result.largest = group;
    }
  }
  if (ragged == 0) return result;
  result.tail = ragged * bytes_of_end + longest;
  result.waiting +=
      bytes_beside_tail + static_cast<std::int64_t>(TailHeap::bytes_for(static_cast<std::size_t>(result.tail)));
  return result;
}

// RowOrder's window for `window_bytes`: as many waiting rows as fit beside the largest row group, which is decoded as a
// whole, and the bucket that leaves. 0: too small.
constexpr std::int64_t window_rows(std::int64_t window_bytes, const RowBytes& bytes, std::int64_t rows) {
  const std::int64_t waiting = (window_bytes - bytes.largest_group) / (bytes.waiting + bytes_beside_row);
  if (waiting >= rows) return RowOrder::whole_set;
  if (waiting < 2 * RowOrder::bucket_rows) return 0;
  return std::min(waiting - RowOrder::bucket_rows, RowOrder::window_max);
}

// The least window_bytes that is not too small.
constexpr std::int64_t window_bytes_min(const RowBytes& bytes, std::int64_t rows) {
  const std::int64_t waiting = std::min(rows, 2 * RowOrder::bucket_rows);
  return bytes.largest_group + waiting * (bytes.waiting + bytes_beside_row);
}

// The window in bytes that a loader chooses by itself: so much for rows that wait, beside the largest row group. It is
// a function of the files alone, because all ranks must have the same one, and machines have not the same free memory.
inline constexpr std::int64_t auto_waiting_bytes = 1'000'000'000;
constexpr std::int64_t auto_window_bytes(const RowBytes& bytes, std::int64_t rows) {
  return std::max(bytes.largest_group + auto_waiting_bytes, window_bytes_min(bytes, rows));
}

// What a window of so many bytes really takes: not more than all rows do.
constexpr std::int64_t bytes_of_window(std::int64_t window_bytes, const RowBytes& bytes, std::int64_t rows) {
  return std::min(window_bytes, bytes.largest_group + rows * (bytes.waiting + bytes_beside_row));
}

}  // namespace dtrain::data
