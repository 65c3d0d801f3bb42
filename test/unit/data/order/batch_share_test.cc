// Ranks share a global batch: each row once, the same number of rows on each rank.
#include "data/order/batch_share.h"

#include <vector>

#include "test/support/catch.h"

using namespace dtrain::data;

namespace {

// The rows of an epoch, as one rank gets them, batch by batch.
std::vector<std::vector<std::int64_t>> batches_of(std::int64_t rows, std::int64_t rank_rows, int rank, int world_size,
                                                  bool drop_last) {
  std::vector<std::vector<std::int64_t>> all;
  for (std::int64_t done = 0; done < rows;) {
    const BatchShare share = next_share(rows - done, rank_rows, rank, world_size, drop_last);
    if (share.batch_rows == 0) break;
    std::vector<std::int64_t> own(static_cast<std::size_t>(share.rows), -1);
    for (std::int64_t row = 0; row < share.batch_rows; ++row) {
      for (std::int64_t at = row - share.lead(); at < share.rows; at += share.batch_rows) {
        if (at >= 0) own.at(static_cast<std::size_t>(at)) = done + row;
      }
    }
    all.push_back(own);
    done += share.batch_rows;
  }
  return all;
}

}  // namespace

TEST_CASE("ranks together have each row of a full batch once, in order") {
  const int world_size = GENERATE(1, 2, 3, 4, 8);
  std::vector<std::int64_t> seen;
  for (int rank = 0; rank < world_size; ++rank) {
    const auto own = batches_of(world_size * 16, 16, rank, world_size, true);
    REQUIRE(own.size() == 1);
    seen.insert(seen.end(), own[0].begin(), own[0].end());
  }
  for (std::size_t i = 0; i < seen.size(); ++i) CHECK(seen[i] == static_cast<std::int64_t>(i));
}

TEST_CASE("all ranks have the same number of batches and rows, whatever is left") {
  const int world_size = GENERATE(1, 2, 3, 5, 16);
  const std::int64_t rows = GENERATE(1, 2, 7, 15, 16, 17, 47, 48, 49, 255, 256, 257);
  const auto first = batches_of(rows, 4, 0, world_size, false);
  std::vector<int> times(static_cast<std::size_t>(rows));
  for (int rank = 0; rank < world_size; ++rank) {
    const auto own = batches_of(rows, 4, rank, world_size, false);
    REQUIRE(own.size() == first.size());
    CHECK(own.size() == static_cast<std::size_t>((rows + 4 * world_size - 1) / (4 * world_size)));
    for (std::size_t batch = 0; batch < own.size(); ++batch) {
      CHECK(own[batch].size() == first[batch].size());
      for (const std::int64_t row : own[batch]) ++times.at(static_cast<std::size_t>(row));
    }
    CHECK(batches_of(rows, 4, rank, world_size, true).size() == static_cast<std::size_t>(rows / (4 * world_size)));
  }
  for (const int count : times) CHECK(count >= 1);
}

TEST_CASE("repeated rows are at the end, and counted") {
  const BatchShare middle = next_share(5, 4, 1, 3, false);  // 5 rows: 2 for each, and one twice
  CHECK(middle.rows == 2);
  CHECK(middle.repeated == 0);
  const BatchShare last = next_share(5, 4, 2, 3, false);
  CHECK(last.rows == 2);
  CHECK(last.repeated == 1);
  CHECK(last.lead() == 4);
  CHECK(next_share(1, 4, 6, 8, false).repeated == 1);
  CHECK(next_share(0, 4, 0, 1, false).batch_rows == 0);
}

TEST_CASE("a rank's rows are two ranges of the batch") {
  for (std::int64_t left = 1; left < 40; ++left) {
    for (int world_size = 1; world_size < 9; ++world_size) {
      for (int rank = 0; rank < world_size; ++rank) {
        const BatchShare share = next_share(left, 3, rank, world_size, false);
        std::vector<bool> wanted(static_cast<std::size_t>(share.batch_rows));
        for (std::int64_t at = 0; at < share.rows; ++at) {
          wanted[static_cast<std::size_t>((share.lead() + at) % share.batch_rows)] = true;
        }
        std::vector<bool> named(wanted.size());
        for (const BatchShare::Rows& part : share.parts()) {
          for (std::int64_t row = part.begin; row < part.end; ++row) named.at(static_cast<std::size_t>(row)) = true;
        }
        CHECK(named == wanted);
      }
    }
  }
}
