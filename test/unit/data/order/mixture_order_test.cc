// Which source each row of a mixture comes from.
#include "data/order/mixture_order.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>

#include "data/base/random_bits.h"
#include "data/order/mixture_state.h"
#include "test/support/catch.h"

using namespace dtrain;
using namespace dtrain::data;

namespace {

constexpr std::int64_t one_row = MixtureOrder::whole_row;
using Numbers = std::vector<std::int64_t>;
using Sources = std::vector<std::uint32_t>;

std::vector<SourceCount> counts_of(const std::vector<double>& weights) {
  std::vector<SourceCount> counts;
  const Numbers parts = weight_parts(weights).value();
  for (const std::int64_t part : parts) counts.push_back({.weight = part});
  return counts;
}

MixtureOrder endless(const std::vector<double>& weights, std::uint64_t seed = 0, std::uint64_t epoch = 0) {
  return {seed, epoch, Numbers(weights.size(), 1), MixtureEnd::never, counts_of(weights)};
}

// 1 to 8 sources, among them some with little weight, or none.
std::vector<double> drawn_weights(std::uint64_t number) {
  std::vector<double> weights(1 + random_bits(number, 0) % 8);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const std::uint64_t bits = random_bits(number, i + 1);
    weights[i] = bits % 7 == 0 ? 0 : std::pow(10, -static_cast<double>(bits % 5)) * static_cast<double>(1 + bits % 100);
  }
  weights[random_bits(number, 99) % weights.size()] = 1;
  return weights;
}

Numbers taken_of(const MixtureOrder& order) {
  Numbers taken;
  for (const SourceCount& one : order.counts()) taken.push_back(one.taken);
  return taken;
}

}  // namespace

TEST_CASE("at every row each source is less than one row from its part") {
  for (std::uint64_t number = 0; number < 200; ++number) {
    const std::vector<double> weights = drawn_weights(number);
    const Numbers parts = weight_parts(weights).value();
    MixtureOrder order = endless(weights, number);
    for (std::int64_t rows = 1; rows <= 2000; ++rows) {
      order.take(1);
      for (std::size_t i = 0; i < parts.size(); ++i) {
        const std::int64_t off = rows * parts[i] - order.counts()[i].taken * one_row;
        if (std::abs(off) >= one_row) FAIL("draw " << number << ": source " << i << " after " << rows << " rows");
        if (order.counts()[i].behind != off) FAIL("draw " << number << ": behind");
      }
    }
  }
}

TEST_CASE("weights that change now and then keep what is still to get") {
  for (std::uint64_t number = 0; number < 200; ++number) {
    std::vector<SourceCount> counts = counts_of({1, 1, 1, 1, 1, 1});
    std::vector<double> due(6, 0);
    for (std::uint64_t change = 0; change < 50; ++change) {
      std::vector<double> weights;
      for (std::uint64_t i = 0; i < 6; ++i)
        weights.push_back(static_cast<double>(1 + random_bits(number, 6 * change + i) % 1000));
      set_weights(counts, weight_parts(weights).value());
      MixtureOrder order(number, 0, Numbers(6, 1), MixtureEnd::never, counts);
      const std::int64_t rows = 1 + static_cast<std::int64_t>(random_bits(number + 7, change) % 5);
      order.take(rows);
      counts = order.counts();
      const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
      for (std::size_t i = 0; i < 6; ++i) due[i] += static_cast<double>(rows) * weights[i] / sum;
    }
    std::int64_t behind = 0;
    for (std::size_t i = 0; i < 6; ++i) {
      behind += counts[i].behind;
      const double off = due[i] - static_cast<double>(counts[i].taken);
      CHECK(std::abs(off - static_cast<double>(counts[i].behind) / static_cast<double>(one_row)) < 1e-6);
      CHECK(off > -1);
      CHECK(off < 2);
    }
    CHECK(behind == 0);
  }
}

TEST_CASE("a weight that is small gets its rows though the weights change with each row") {
  std::vector<SourceCount> counts = counts_of({1, 1});
  for (int change = 0; change < 1000; ++change) {
    set_weights(counts, weight_parts(std::vector<double>{100.0 + change % 2, 1.0}).value());
    MixtureOrder order(0, 0, Numbers(2, 1), MixtureEnd::never, counts);
    order.take(1);
    counts = order.counts();
  }
  CHECK(counts[1].taken >= 8);
  CHECK(counts[1].taken <= 11);
}

TEST_CASE("a source whose weight becomes 0 gets no row, and leaves nothing behind") {
  MixtureOrder order = endless({5, 3, 2, 1});
  order.take(7);
  std::vector<SourceCount> counts = order.counts();
  set_weights(counts, weight_parts(std::vector<double>{0, 3, 0, 1}).value());
  CHECK(counts[0].behind == 0);
  CHECK(counts[2].behind == 0);
  CHECK(counts[1].behind + counts[3].behind == 0);
  MixtureOrder after(0, 0, Numbers(4, 1), MixtureEnd::never, counts);
  for (const std::uint32_t source : after.take(400)) CHECK((source == 1 || source == 3));
  CHECK(std::abs(after.counts()[1].taken - counts[1].taken - 300) <= 2);
}

TEST_CASE("a change to the same weights changes nothing") {
  MixtureOrder order = endless({5, 3, 0, 1});
  order.take(13);
  std::vector<SourceCount> counts = order.counts();
  set_weights(counts, weight_parts(std::vector<double>{5, 3, 0, 1}).value());
  CHECK(counts == order.counts());
}

TEST_CASE("from a thousand points the rest is exactly what is left, also after weights have changed") {
  for (std::uint64_t number = 0; number < 20; ++number) {
    const std::vector<double> first = drawn_weights(number);
    std::vector<double> second = drawn_weights(number + 1000);
    second.resize(first.size());
    second[0] = 0.5;
    MixtureOrder before = endless(first, number);
    Sources all = before.take(150);
    std::vector<SourceCount> changed = before.counts();
    set_weights(changed, weight_parts(second).value());
    const Numbers rows(first.size(), 1);
    const Sources rest = MixtureOrder(number, 0, rows, MixtureEnd::never, changed).take(150);
    for (std::uint64_t point = 0; point < 50; ++point) {
      const auto at = static_cast<std::int64_t>(random_bits(number, point) % 300);
      MixtureOrder order =
          at < 150 ? endless(first, number) : MixtureOrder(number, 0, rows, MixtureEnd::never, changed);
      order.take(at % 150);
      const auto state = mixture_state(to_text({.counts = order.counts()}));
      REQUIRE(state);
      const Sources went_on = MixtureOrder(number, 0, rows, MixtureEnd::never, state->counts).take(150 - at % 150);
      const Sources& of = at < 150 ? all : rest;
      if (went_on != Sources(of.begin() + at % 150, of.end())) FAIL("draw " << number << ", point " << at);
    }
  }
}

TEST_CASE("sources with the same weight take turns in an order that the seed and the epoch decide") {
  const Sources order = endless({1, 1, 1, 1}).take(400);
  for (std::size_t begin = 0; begin < order.size(); begin += 4) {
    Sources turn(order.begin() + static_cast<std::ptrdiff_t>(begin),
                 order.begin() + static_cast<std::ptrdiff_t>(begin) + 4);
    std::sort(turn.begin(), turn.end());
    CHECK(turn == Sources{0, 1, 2, 3});
  }
  CHECK(endless({1, 1, 1, 1}, 1).take(400) != order);
  CHECK(endless({1, 1, 1, 1}, 0, 1).take(400) != order);
}

// So a checkpoint goes on with the same rows after an update of dtrain.
TEST_CASE("the mixture is the same in every version") {
  std::uint64_t sum = 0;
  for (const std::uint32_t source : endless({3, 2, 2, 0.5}, 42, 7).take(1000)) sum = mixed(sum + source + 1);
  CHECK(sum == 0x445E93FBC0D32843ULL);
}

TEST_CASE("an epoch ends before a source begins again, or when all have been read, or never") {
  const Numbers rows{10, 30, 5};
  const auto taken_by_the_end = [&](MixtureEnd end, const std::vector<double>& weights) {
    MixtureOrder order(3, 0, rows, end, counts_of(weights));
    const std::size_t got = order.take(1000).size();
    const Numbers taken = taken_of(order);
    CHECK(order.take(10).empty() == (got < 1000));
    return taken;
  };
  const Numbers first = taken_by_the_end(MixtureEnd::first, {1, 1, 0});
  CHECK(first[0] == 10);
  CHECK(first[2] == 0);
  CHECK(std::abs(first[1] - 10) <= 1);
  const Numbers all = taken_by_the_end(MixtureEnd::all, {1, 1, 0});
  CHECK(all[1] == 30);
  CHECK(all[2] == 0);
  CHECK(std::abs(all[0] - 30) <= 1);
  CHECK(taken_by_the_end(MixtureEnd::all, {1, 2, 1})[1] == 30);
  CHECK(taken_by_the_end(MixtureEnd::never, {1, 1, 2}) == Numbers{250, 250, 500});
  CHECK(taken_by_the_end(MixtureEnd::first, {0, 0, 1}) == Numbers{0, 0, 5});
}

TEST_CASE("weights become parts that are a whole together") {
  CHECK(weight_parts(std::vector<double>{3, 1}) == Numbers{one_row / 4 * 3, one_row / 4});
  CHECK(weight_parts(std::vector<double>{0, 7}) == Numbers{0, one_row});
  CHECK(weight_parts(std::vector<double>{1e-30, 1, 1}) == Numbers{1, one_row / 2 - 1, one_row / 2});
  const Numbers thirds = weight_parts(std::vector<double>{0.1, 0.1, 0.1}).value();
  CHECK(std::accumulate(thirds.begin(), thirds.end(), std::int64_t{0}) == one_row);
  for (const double bad : {-1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    CHECK_FALSE(weight_parts(std::vector<double>{1, bad}));
  }
  CHECK_FALSE(weight_parts(std::vector<double>{0, 0}));
  CHECK_FALSE(weight_parts(std::vector<double>{}));
}
