// Which rows wait, and how well they are mixed.
#include "data/order/shuffle_buffer.h"

#include <cmath>
#include <numeric>
#include <vector>

#include "test/support/catch.h"
#include "test/unit/data/order/orders.h"

using namespace dtrain::data;

namespace {

// How far the classes of a batch are from equal shares, on average over the batches: the total variation distance. The
// stream of the files is sorted by class, of which there are ten.
double skew(const RowOrder& order, std::int64_t batch) {
  std::vector<std::int64_t> first_of_group(order.turns().size());
  double sum = 0;
  std::int64_t batches = 0, in_batch = 0;
  std::vector<std::int64_t> counts(10);
  for (const std::int64_t row : drained(order, 0, 1024).rows) {
    const std::int64_t group_rows = order.turns().front().rows;
    const RowOrder::Turn& turn = order.turns()[static_cast<std::size_t>(row / group_rows)];
    const std::int64_t in_files = turn.group * group_rows + row % group_rows;
    ++counts[static_cast<std::size_t>(in_files * 10 / order.rows())];
    if (++in_batch < batch) continue;
    double distance = 0;
    for (std::int64_t& count : counts)
      distance += std::abs(static_cast<double>(std::exchange(count, 0)) / static_cast<double>(batch) - 0.1);
    sum += distance / 2;
    ++batches;
    in_batch = 0;
  }
  return sum / static_cast<double>(batches);
}

double mean_skew(std::int64_t window) {
  const std::vector<std::int64_t> groups(64, 8192);
  double sum = 0;
  for (std::uint64_t seed = 0; seed < 8; ++seed) sum += skew(RowOrder(groups, seed, 0, window), 1024);
  return sum / 8;
}

}  // namespace

TEST_CASE("shuffle quality of a set that is sorted by class") {
  // An eighth of the rows in memory: one row group that enters, and seven that wait.
  CHECK(mean_skew(7 * 8192) < 0.30);
  CHECK(mean_skew(RowOrder::whole_set) < 0.04);
  CHECK(mean_skew(0) > 0.85);
}

TEST_CASE("slots are used again") {
  // Those of the bucket's rows that had left before the position, too.
  CHECK(drained(RowOrder(std::vector<std::int64_t>{5000}, 0, 0, 0), 700).slots == RowOrder::bucket_rows);
  const std::vector<std::int64_t> groups(200, 1000);
  const RowOrder order(groups, 0, 0, 5000);
  CHECK(drained(order).slots < 5000 * 1.4);
}
