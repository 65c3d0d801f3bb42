// See power_sgd_plan.h.
#include "strategies/ddp/power_sgd_plan.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace dtrain {
namespace {

// A word that looks random for each word: the finalizer of SplitMix64 (Steele, Lea and Flood, 2014).
std::uint64_t mix(std::uint64_t word) {
  word = (word ^ (word >> 30U)) * 0xBF58476D1CE4E5B9U;
  word = (word ^ (word >> 27U)) * 0x94D049BB133111EBU;
  return word ^ (word >> 31U);
}

constexpr std::uint64_t kStride = 0x9E3779B97F4A7C15U;

}  // namespace

PowerSgdPlan plan_power_sgd(const std::vector<std::vector<std::int64_t>>& shapes, const PowerSgd& options) {
  PowerSgdPlan plan;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const std::int64_t count =
        std::accumulate(shapes[i].begin(), shapes[i].end(), std::int64_t{1}, std::multiplies<>());
    const std::int64_t rows = shapes[i].empty() || count == 0 ? 1 : shapes[i].front();
    const std::int64_t columns = count / rows;
    const std::int64_t rank = std::min<std::int64_t>({options.matrix_rank, rows, columns});
    const std::int64_t sent = rank * (rows + columns);
    if (static_cast<double>(count) > options.min_compression_rate * static_cast<double>(sent)) {
      plan.matrices.push_back({i, rows, columns, rank, plan.first, plan.second});
      plan.first += rows * rank;
      plan.second += columns * rank;
    } else {
      plan.whole.push_back({i, count, 0});
    }
  }
  for (PowerSgdPlan::Whole& one : plan.whole) {
    one.at = plan.first;
    plan.first += one.count;
  }
  return plan;
}

std::string why_not(const PowerSgd& options) {
  if (options.matrix_rank < 1) return "matrix_rank must be at least 1";
  if (options.start_step < 0) return "start_step must not be negative";
  if (!(options.min_compression_rate > 0)) return "min_compression_rate must be above 0";
  if (!(options.orthogonalization_epsilon >= 0)) return "orthogonalization_epsilon must not be negative";
  return "";
}

std::vector<double> random_numbers(std::uint64_t seed, std::size_t index, std::uint64_t draw, std::int64_t count) {
  std::uint64_t state = mix(mix(mix(seed + kStride) + index + kStride) + draw + kStride);
  std::vector<double> numbers(static_cast<std::size_t>(count));
  for (double& number : numbers) {
    state += kStride;
    // 53 bits: odd multiples of 2^-53, so never 0 and never 1.
    const auto bits = static_cast<std::int64_t>(mix(state) >> 11U);
    number = static_cast<double>(2 * bits + 1 - (std::int64_t{1} << 53)) * 0x1p-53;
  }
  return numbers;
}

}  // namespace dtrain
