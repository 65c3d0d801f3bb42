// What PowerSGD sends, counted.
#include "strategies/ddp/power_sgd_plan.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "test/support/catch.h"

using namespace dtrain;

namespace {

std::int64_t numbers_sent(const std::vector<std::vector<std::int64_t>>& shapes, const PowerSgd& options) {
  const PowerSgdPlan plan = plan_power_sgd(shapes, options);
  return plan.first + plan.second;
}

}  // namespace

TEST_CASE("a matrix goes as its rank times its rows and columns, the rest as it is") {
  PowerSgd options;
  options.matrix_rank = 4;
  // The example of docs/training/data-parallel.md: a layer of 1024 x 1024 and its bias.
  CHECK(numbers_sent({{1024, 1024}, {1024}}, options) == 4 * (1024 + 1024) + 1024);
  // Of a convolution 64 x (32 * 3 * 3).
  CHECK(numbers_sent({{64, 32, 3, 3}}, options) == 4 * (64 + 288));
  options.matrix_rank = 1;
  CHECK(numbers_sent({{1024, 1024}, {1024}}, options) == (1024 + 1024) + 1024);
  CHECK(numbers_sent({{}, {0}, {0, 5}, {7}}, options) == 1 + 7);
}

TEST_CASE("what would not shrink enough is not compressed") {
  PowerSgd options;
  options.matrix_rank = 2;
  CHECK(plan_power_sgd({{8, 8}}, options).matrices.empty());  // 64 is not more than 2 * 2 * 16
  options.min_compression_rate = 1.9;
  CHECK(plan_power_sgd({{8, 8}}, options).matrices.size() == 1);
  options.matrix_rank = 100;
  options.min_compression_rate = 0.5;
  const PowerSgdPlan plan = plan_power_sgd({{5, 9}}, options);
  REQUIRE(plan.matrices.size() == 1);
  CHECK(plan.matrices[0].rank == 5);  // no more than the rows
}

TEST_CASE("the parts of what is reduced lie side by side") {
  PowerSgd options;
  options.matrix_rank = 3;
  const PowerSgdPlan plan = plan_power_sgd({{7}, {40, 50}, {30, 20, 2}, {2, 2}}, options);
  REQUIRE(plan.matrices.size() == 2);
  REQUIRE(plan.whole.size() == 2);
  CHECK(plan.matrices[0].tensor == 1);
  CHECK(plan.matrices[0].p_at == 0);
  CHECK(plan.matrices[1].p_at == 3 * 40);
  CHECK(plan.matrices[1].q_at == 3 * 50);
  CHECK(plan.matrices[1].columns == 40);
  CHECK(plan.whole[0].at == 3 * (40 + 30));
  CHECK(plan.whole[1].tensor == 3);
  CHECK(plan.whole[1].at == 3 * (40 + 30) + 7);
  CHECK(plan.first == 3 * (40 + 30) + 7 + 4);
  CHECK(plan.second == 3 * (50 + 40));
}

TEST_CASE("options that make no sense are named") {
  CHECK(why_not(PowerSgd{}).empty());
  const auto complains = [](auto change) {
    PowerSgd options;
    change(options);
    return why_not(options);
  };
  CHECK_THAT(complains([](PowerSgd& o) { o.matrix_rank = 0; }), Catch::Contains("matrix_rank"));
  CHECK_THAT(complains([](PowerSgd& o) { o.start_step = -1; }), Catch::Contains("start_step"));
  CHECK_THAT(complains([](PowerSgd& o) { o.min_compression_rate = 0; }), Catch::Contains("min_compression_rate"));
  CHECK_THAT(complains([](PowerSgd& o) { o.orthogonalization_epsilon = NAN; }), Catch::Contains("epsilon"));
}

TEST_CASE("random numbers are the same each time, of mean 0 and variance 1/3, and differ by seed, parameter and draw") {
  const auto numbers = random_numbers(1, 2, 3, 100'000);
  CHECK(numbers == random_numbers(1, 2, 3, 100'000));
  double sum = 0;
  double squares = 0;
  for (const double one : numbers) {
    sum += one;
    squares += one * one;
  }
  CHECK(std::abs(sum / 1e5) < 0.01);
  CHECK(squares / 1e5 == Approx(1.0 / 3).margin(0.01));
  CHECK(*std::max_element(numbers.begin(), numbers.end()) < 1);
  CHECK(*std::min_element(numbers.begin(), numbers.end()) > -1);
  std::set<double> firsts;
  for (std::uint64_t seed = 0; seed < 5; ++seed)
    for (std::size_t index = 0; index < 5; ++index)
      for (std::uint64_t draw = 0; draw < 5; ++draw) firsts.insert(random_numbers(seed, index, draw, 1)[0]);
  CHECK(firsts.size() == 125);
}
