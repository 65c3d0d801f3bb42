#pragma once
// What PowerSGD sends of the gradients of a bucket. Pure.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/power_sgd.h"

namespace dtrain {

struct PowerSgdPlan {
  struct Matrix {
    std::size_t tensor = 0;  // which of the bucket's
    std::int64_t rows = 0;
    std::int64_t columns = 0;
    std::int64_t rank = 0;  // columns of P and Q
    std::int64_t p_at = 0;  // where P is in what is reduced first
    std::int64_t q_at = 0;  // where Q is in what is reduced second
  };
  struct Whole {
    std::size_t tensor = 0;
    std::int64_t count = 0;
    std::int64_t at = 0;  // in what is reduced first
  };
  std::vector<Matrix> matrices;
  std::vector<Whole> whole;
  std::int64_t first = 0;   // numbers that are reduced first
  std::int64_t second = 0;  // and second
};

// `shapes`: of the bucket's tensors.
PowerSgdPlan plan_power_sgd(const std::vector<std::vector<std::int64_t>>& shapes, const PowerSgd& options);

// The option that makes no sense; empty where all do.
std::string why_not(const PowerSgd& options);

// Numbers above -1 and below 1 for the Q of parameter `index`, when it is drawn for the `draw`-th time: the same
// wherever they are made.
std::vector<double> random_numbers(std::uint64_t seed, std::size_t index, std::uint64_t draw, std::int64_t count);

}  // namespace dtrain
