#include "data/recipe/scatter_plan.h"

#include "test/support/catch.h"

using namespace dtrain::data;

TEST_CASE("scatter: buckets are ranges of keys in their order, whatever their number") {
  for (const std::uint32_t count : {1U, 3U, 1000U}) {
    CHECK(bucket_of_key(0, count) == 0);
    CHECK(bucket_of_key(UINT64_MAX, count) == count - 1);
    std::vector<int> filled(count);
    std::uint64_t key = 0;
    std::uint32_t last = 0;
    for (int i = 0; i < 10'000; ++i, key += UINT64_MAX / 10'000) {
      const std::uint32_t bucket = bucket_of_key(key, count);
      CHECK(bucket >= last);
      last = bucket;
      ++filled[bucket];
    }
    for (const int rows : filled) CHECK(std::abs(rows - static_cast<int>(10'000 / count)) <= 2);
  }
}

TEST_CASE("scatter: each part gets its share of the rows, and a row the same part in each run") {
  const PartChooser chooser({{"test", 0.1}, {"train", 0.7}, {"validation", 0.2}});
  const RowKeys keys(5, 2);
  std::vector<int> rows(3);
  for (std::uint64_t row = 0; row < 100'000; ++row) ++rows[chooser.part(keys.of_split(row))];
  CHECK(rows[0] == Approx(10'000).margin(400));
  CHECK(rows[1] == Approx(70'000).margin(700));
  CHECK(rows[2] == Approx(20'000).margin(600));
  CHECK(chooser.part(0) == 0);
  CHECK(chooser.part(UINT64_MAX) == 2);
}

TEST_CASE("scatter: keys differ by seed, unit and row, and those of the split are others") {
  CHECK(RowKeys(1, 0).of_order(0) != RowKeys(2, 0).of_order(0));
  CHECK(RowKeys(1, 0).of_order(0) != RowKeys(1, 1).of_order(0));
  CHECK(RowKeys(1, 0).of_order(0) != RowKeys(1, 0).of_order(1));
  CHECK(RowKeys(1, 0).of_order(0) != RowKeys(1, 0).of_split(0));
}

TEST_CASE("scatter: names of files are in the order of their numbers") {
  CHECK(part_name(7, 1) == "part-00007.parquet");
  CHECK(part_name(99'999, 100'000) == "part-99999.parquet");
  CHECK(part_name(99'999, 100'001) == "part-099999.parquet");
  CHECK(part_name(99'999, 100'001) < part_name(100'000, 100'001));
}

TEST_CASE("scatter: a part has a bucket at least") {
  CHECK(bucket_counts({{"a", 0.9}, {"b", 0.1}}, 1000, 100) == std::vector<std::uint32_t>{10, 2});
  CHECK(bucket_counts({{"a", 1.0}}, 0, 100) == std::vector<std::uint32_t>{1});
}
