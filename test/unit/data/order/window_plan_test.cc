// A window of bytes as one of rows.
#include "data/order/window_plan.h"

#include "test/support/catch.h"

using namespace dtrain::data;

namespace {

// Rows of one length, of which the largest group has `group`.
RowBytes even_rows(std::int64_t bytes, std::int64_t group) { return {bytes, group * bytes, 0}; }

}  // namespace

TEST_CASE("a window has room for the largest row group, the waiting rows and the bucket that leaves") {
  const std::int64_t window = window_rows(20'000'000, even_rows(160, 65536), 4'000'000);
  CHECK(65536 * 160 + (window + RowOrder::bucket_rows) * 168 <= 20'000'000);
  CHECK(65536 * 160 + (window + RowOrder::bucket_rows + 1) * 168 > 20'000'000);
}

TEST_CASE("the least window is the least that is not refused, also of small sets") {
  for (const std::int64_t rows : {1, 100, 400, 2047, 2048, 2049, 5000, 1'000'000}) {
    for (const std::int64_t length : {1, 8, 160}) {
      const RowBytes bytes = even_rows(length, std::min<std::int64_t>(rows, 400));
      const std::int64_t least = window_bytes_min(bytes, rows);
      CHECK(window_rows(least - 1, bytes, rows) == 0);
      CHECK(window_rows(least, bytes, rows) >= RowOrder::bucket_rows);
      CHECK(window_rows(1, bytes, rows) == 0);
    }
  }
}

TEST_CASE("a window in which all rows can wait is the whole set") {
  CHECK(window_rows(400 * 8 + 1000 * 16, even_rows(8, 400), 1000) == RowOrder::whole_set);
  CHECK(window_rows(10'000'000'000'000, even_rows(8, 400), 1'000'000'000'000) == RowOrder::window_max);
}

TEST_CASE("the window that a loader chooses has 1 GB of waiting rows, or all of them") {
  const RowBytes small = even_rows(160, 65536), large = even_rows(5'000'000, 400);
  CHECK(auto_window_bytes(small, 40'000'000) == 65536 * 160 + 1'000'000'000);
  CHECK(bytes_of_window(auto_window_bytes(small, 40'000'000), small, 40'000'000) == 65536 * 160 + 1'000'000'000);
  CHECK(window_rows(auto_window_bytes(small, 5'900'000), small, 5'900'000) == RowOrder::whole_set);
  CHECK(bytes_of_window(auto_window_bytes(small, 4'000'000), small, 4'000'000) == 65536 * 160 + 4'000'000 * 168);
  // It is never one that is refused.
  CHECK(auto_window_bytes(large, 40'000) == window_bytes_min(large, 40'000));
}

TEST_CASE("what rows of one length take is their values alone") {
  const std::vector<std::int64_t> rows{100, 0, 400, 300}, tails(4);
  CHECK(row_bytes(160, 0, rows, tails) == RowBytes{160, 64'000, 2});
}

TEST_CASE("rows that differ in length count as those of the row group with the longest") {
  const std::vector<std::int64_t> rows{100, 0, 400, 300}, tails{5001, 0, 400, 0};
  const RowBytes bytes = row_bytes(8, 2, rows, tails);
  CHECK(bytes.tail == 51 + 2 * bytes_of_end);
  CHECK(bytes.waiting == 8 + bytes_beside_tail + static_cast<std::int64_t>(TailHeap::bytes_for(51 + 16)));
  // The row group that takes most memory may be another one.
  CHECK(bytes.largest == 2);
  CHECK(bytes.largest_group == 400 * (8 + 2 * 2 * bytes_of_end) + 400);
  CHECK(row_bytes(8, 2, rows, std::vector<std::int64_t>{50'000, 0, 400, 0}).largest == 0);
}
