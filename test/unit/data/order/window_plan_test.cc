// A window of bytes as one of rows.
#include "data/order/window_plan.h"

#include "test/support/catch.h"

using namespace dtrain::data;

TEST_CASE("a window has room for the largest row group, the waiting rows and the bucket that leaves") {
  const std::int64_t window = window_rows(20'000'000, 160, 65536, 4'000'000);
  CHECK(65536 * 160 + (window + RowOrder::bucket_rows) * 168 <= 20'000'000);
  CHECK(65536 * 160 + (window + RowOrder::bucket_rows + 1) * 168 > 20'000'000);
}

TEST_CASE("the least window is the least that is not refused, also of small sets") {
  for (const std::int64_t rows : {1, 100, 400, 2047, 2048, 2049, 5000, 1'000'000}) {
    for (const std::int64_t row_bytes : {1, 8, 160}) {
      const std::int64_t largest = std::min<std::int64_t>(rows, 400);
      const std::int64_t least = window_bytes_min(row_bytes, largest, rows);
      CHECK(window_rows(least - 1, row_bytes, largest, rows) == 0);
      CHECK(window_rows(least, row_bytes, largest, rows) >= RowOrder::bucket_rows);
      CHECK(window_rows(1, row_bytes, largest, rows) == 0);
    }
  }
}

TEST_CASE("a window in which all rows can wait is the whole set") {
  CHECK(window_rows(400 * 8 + 1000 * 16, 8, 400, 1000) == RowOrder::whole_set);
  CHECK(window_rows(10'000'000'000'000, 8, 400, 1'000'000'000'000) == RowOrder::window_max);
}
