// The order of rows depends on seed, epoch, row groups and window alone, and begins at any position.
#include "data/order/row_order.h"

#include <algorithm>
#include <numeric>

#include "data/base/random_bits.h"
#include "test/support/catch.h"
#include "test/unit/data/order/orders.h"

using namespace dtrain::data;

namespace {

using Rows = std::vector<std::int64_t>;

Rows counted(std::int64_t rows) {
  Rows all(static_cast<std::size_t>(rows));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

Rows sorted(Rows rows) {
  std::sort(rows.begin(), rows.end());
  return rows;
}

const Rows uneven = {700, 0, 3000, 1, 0, 4096, 12, 5000, 1024};

}  // namespace

TEST_CASE("each row has one place in an epoch") {
  const std::int64_t window = GENERATE(as<std::int64_t>{}, 0, 1, 7, 500, 1024, 3000, 12000, 13833, 20000, whole);
  const Rows groups = GENERATE(Rows{1}, Rows{5000}, Rows{0, 0, 3}, uneven, Rows(100, 64));
  const RowOrder order(groups, 3, 1, window);
  CHECK(sorted(drained(order).rows) == counted(std::accumulate(groups.begin(), groups.end(), std::int64_t{0})));
}

TEST_CASE("a set without rows has an order without rows") {
  CHECK(drained(RowOrder(Rows{}, 1, 1, 10)).rows.empty());
  CHECK(drained(RowOrder(Rows{0, 0}, 1, 1, whole)).rows.empty());
}

TEST_CASE("without a window the rows come as they lie in the files") {
  const RowOrder order(uneven, 3, 1, 0);
  CHECK(drained(order).rows == counted(order.rows()));
  std::int64_t last = -1;
  for (const RowOrder::Turn& turn : order.turns()) {
    CHECK(turn.group > last);
    last = turn.group;
  }
}

TEST_CASE("the groups of the stream are all groups with rows, side by side") {
  const RowOrder order(uneven, 9, 0, 100);
  Rows groups;
  std::int64_t first = 0;
  for (const RowOrder::Turn& turn : order.turns()) {
    CHECK(turn.first == first);
    CHECK(turn.rows == uneven[static_cast<std::size_t>(turn.group)]);
    first += turn.rows;
    groups.push_back(turn.group);
  }
  CHECK(first == order.rows());
  CHECK(sorted(groups) == Rows{0, 2, 3, 5, 6, 7, 8});
}

TEST_CASE("seed, epoch and window each change the order, and nothing else does") {
  const Rows groups(20, 300);
  const Rows order = drained(RowOrder(groups, 1, 2, 900)).rows;
  CHECK(drained(RowOrder(groups, 1, 2, 900), 0, 1).rows == order);
  CHECK(drained(RowOrder(groups, 2, 2, 900)).rows != order);
  CHECK(drained(RowOrder(groups, 1, 3, 900)).rows != order);
  CHECK(drained(RowOrder(groups, 1, 2, 901)).rows != order);
}

// Written down from the first version, so that a checkpoint goes on with the same rows after an update of dtrain.
TEST_CASE("the order is the same in every version") {
  CHECK(random_bits(0, 0) == 0xE220A8397B1DCDAFULL);  // SplitMix64's first number with the seed 0
  std::uint64_t sum = 0;
  const RowOrder order(uneven, 42, 7, 1000);
  for (const RowOrder::Turn& turn : order.turns()) sum = mixed(sum + static_cast<std::uint64_t>(turn.group));
  for (const std::int64_t row : drained(order).rows) sum = mixed(sum + static_cast<std::uint64_t>(row));
  CHECK(sum == 0xBBCBCE676CAF1930ULL);
  sum = 0;
  for (const std::int64_t row : drained(RowOrder(uneven, 42, 7, whole)).rows) {
    sum = mixed(sum + static_cast<std::uint64_t>(row));
  }
  CHECK(sum == 0x31C037E579396665ULL);
}

TEST_CASE("from a thousand positions the rest of the order is exactly what is left") {
  const std::int64_t window = GENERATE(as<std::int64_t>{}, 0, 300, 2500, whole);
  const RowOrder order(uneven, 5, 4, window);
  const Rows all = drained(order).rows;
  for (std::uint64_t i = 0; i < 252; ++i) {
    const auto position = static_cast<std::int64_t>(i < 2 ? i * all.size() : random_bits(11, i) % (all.size() + 1));
    const Drained rest = drained(order, position);
    if (rest.rows != Rows(all.begin() + position, all.end())) FAIL("from position " << position);
    // It reads what can still be wanted, and not the rows before.
    CHECK(rest.entered <= order.rows() - position + order.spread() + 2 * RowOrder::bucket_rows);
  }
}

TEST_CASE("a row moves less than a spread ahead, and no more rows wait than the window and its margin") {
  const RowOrder order(Rows(50, 4000), 8, 0, 10000);
  const Drained all = drained(order);
  for (std::size_t place = 0; place < all.rows.size(); ++place) {
    const std::int64_t row = all.rows[place];
    if (static_cast<std::int64_t>(place) < row - order.spread() ||
        static_cast<std::int64_t>(place) > row + order.spread()) {
      FAIL("row " << row << " at place " << place);
    }
  }
  CHECK(static_cast<std::int64_t>(all.slots) <= ShuffleBuffer::expected_slots(order));
  CHECK(ShuffleBuffer::expected_slots(order) < 10000 * 1.3);
}

// Tenths of the order against tenths of the stream: chi square between its 0.0001 and its 0.9998 quantile.
TEST_CASE("a window of all rows is a uniform permutation") {
  const RowOrder order(Rows(10, 2000), 21, 0, whole);
  std::vector<double> cells(100);
  const Rows rows = drained(order).rows;
  for (std::size_t place = 0; place < rows.size(); ++place) cells[place / 2000 * 10 + rows[place] / 2000] += 1;
  double chi = 0;
  for (const double cell : cells) chi += (cell - 200) * (cell - 200) / 200;
  CHECK(chi < 133.4);  // 81 degrees of freedom
  CHECK(chi > 42);
}
