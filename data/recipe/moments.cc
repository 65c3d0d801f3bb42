#include "data/recipe/moments.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <vector>

namespace dtrain::data {
namespace {

// Sums side by side: the compiler makes vectors of them, and each is of fewer values and so more exact. Their number is
// part of the result, so it is the same on all machines.
constexpr std::size_t kLanes = 8;
// Values whose mean is found, and then, while they are in the cache, their distances from it.
constexpr std::size_t kBlock = 4096;

using Lanes = std::array<double, kLanes>;

double sum_of(const Lanes& lanes) {
  return ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) + ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
}

template <typename T>
Moments block_of(std::span<const T> values) {
  Lanes sums{}, squares{};
  const std::size_t whole = values.size() / kLanes * kLanes;
  std::array<T, kLanes> least, most;
  least.fill(values[0]);
  most.fill(values[0]);
  for (std::size_t i = 0; i < whole; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const T value = values[i + lane];
      sums[lane] += static_cast<double>(value);
      least[lane] = value < least[lane] ? value : least[lane];
      most[lane] = value > most[lane] ? value : most[lane];
    }
  }
  for (std::size_t i = whole; i < values.size(); ++i) {
    sums[0] += static_cast<double>(values[i]);
    least[0] = std::min(least[0], values[i]);
    most[0] = std::max(most[0], values[i]);
  }
  Moments moments;
  moments.count = static_cast<std::int64_t>(values.size());
  moments.mean = sum_of(sums) / static_cast<double>(values.size());
  for (std::size_t i = 0; i < whole; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const double distance = static_cast<double>(values[i + lane]) - moments.mean;
      squares[lane] += distance * distance;
    }
  }
  for (std::size_t i = whole; i < values.size(); ++i) {
    const double distance = static_cast<double>(values[i]) - moments.mean;
    squares[0] += distance * distance;
  }
  moments.squares = sum_of(squares);
  moments.least = static_cast<double>(*std::min_element(least.begin(), least.end()));
  moments.most = static_cast<double>(*std::max_element(most.begin(), most.end()));
  return moments;
}

template <typename T>
Moments all_of(std::span<const T> values) {
  Moments all;
  for (std::size_t i = 0; i < values.size(); i += kBlock) {
    const auto block = values.subspan(i, std::min(kBlock, values.size() - i));
    Moments found = block_of(block);
    if (std::isnan(found.mean)) {  // a NaN, or infinities of both signs
      std::vector<T> numbers;
      std::copy_if(block.begin(), block.end(), std::back_inserter(numbers), [](T value) { return !std::isnan(value); });
      found = numbers.empty() ? Moments{} : block_of(std::span<const T>(numbers));
      found.nans = static_cast<std::int64_t>(block.size() - numbers.size());
    }
    all.merge(found);
  }
  return all;
}

template <typename T, typename Out>
void scale_all(std::span<const T> values, const Scaling& by, Out* out) {
  const double offset = by.offset, factor = by.factor;
  for (std::size_t i = 0; i < values.size(); ++i)
    out[i] = static_cast<Out>((static_cast<double>(values[i]) - offset) * factor);
}

}  // namespace

// Chan, Golub and LeVeque's formula for two parts.
void Moments::merge(const Moments& other) {
  nans += other.nans;
  least = std::min(least, other.least);
  most = std::max(most, other.most);
  if (other.count == 0) return;
  const auto own = static_cast<double>(count), others = static_cast<double>(other.count);
  const double distance = other.mean - mean, share = others / (own + others);
  squares += other.squares + distance * distance * own * share;
  mean = count == 0 ? other.mean : mean + distance * share;
  count += other.count;
}

Moments moments_of(std::span<const float> values) { return all_of(values); }
Moments moments_of(std::span<const double> values) { return all_of(values); }

Scaling zscore(const Moments& moments) {
  const double deviation = std::sqrt(moments.variance());
  // Of equal values the mean is not always exact, and so the deviation not always 0.
  return {moments.mean, moments.most > moments.least && deviation > 0 ? 1 / deviation : 0};
}

Scaling minmax(const Moments& moments) {
  const double range = moments.most - moments.least;
  return {moments.least, range > 0 ? 1 / range : 0};
}

void scale(std::span<const float> values, const Scaling& by, float* out) { scale_all(values, by, out); }
void scale(std::span<const double> values, const Scaling& by, double* out) { scale_all(values, by, out); }
void scale(std::span<const double> values, const Scaling& by, float* out) { scale_all(values, by, out); }

}  // namespace dtrain::data
