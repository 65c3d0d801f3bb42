// What a rank reads of each source for a batch.
#include "data/order/mixture_share.h"

#include <numeric>

#include "data/base/random_bits.h"
#include "test/support/catch.h"

using namespace dtrain::data;

TEST_CASE("the ranks' parts are the rows of the batch in their order, whatever their number") {
  std::vector<std::uint32_t> sources(61);
  for (std::size_t row = 0; row < sources.size(); ++row)
    sources[row] = static_cast<std::uint32_t>(random_bits(3, row) % 3);
  const auto rows = static_cast<std::int64_t>(sources.size());
  for (const int world : {1, 2, 3, 4, 7, 61, 64}) {
    for (int rank = 0; rank < world; ++rank) {
      const BatchShare share = next_share(rows, 100, rank, world, false);
      const auto shares = source_shares(sources, share, 3);
      std::vector<std::int64_t> row_at(static_cast<std::size_t>(share.rows), -1);
      std::vector<std::int64_t> place_of(sources.size(), -1);
      for (std::uint32_t source = 0; source < 3; ++source) {
        // The rows that the runs walk over, one by one, are the batch's rows of the source.
        std::vector<std::int64_t> of_source;
        for (std::int64_t row = 0; row < rows; ++row) {
          if (sources[static_cast<std::size_t>(row)] == source) of_source.push_back(row);
        }
        std::size_t next = 0, own = 0;
        for (const SourceRun& run : shares[source].runs) {
          for (std::int64_t i = 0; i < run.rows; ++i, ++next) {
            if (run.is_own) row_at.at(static_cast<std::size_t>(shares[source].places.at(own++))) = of_source.at(next);
          }
        }
        CHECK(next == of_source.size());
        CHECK(own == shares[source].places.size());
      }
      for (std::int64_t place = 0; place < share.rows; ++place) {
        if (row_at[static_cast<std::size_t>(place)] != (share.first + place) % rows)
          FAIL(world << " ranks, rank " << rank);
      }
    }
  }
}

TEST_CASE("a source without rows in the batch has no run, and a rank's repeated rows are two runs") {
  const std::vector<std::uint32_t> sources{0, 2, 0, 0};
  const auto shares = source_shares(sources, {.batch_rows = 4, .first = 3, .rows = 2, .repeated = 1}, 3);
  CHECK(shares[0].runs == std::vector<SourceRun>{{1, true}, {1, false}, {1, true}});
  CHECK(shares[0].places == std::vector<std::int64_t>{1, 0});
  CHECK(shares[1].runs.empty());
  CHECK(shares[2].runs == std::vector<SourceRun>{{1, false}});
  CHECK(shares[2].places.empty());
}
