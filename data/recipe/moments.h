#pragma once
// Mean, variance and range of a column: of a part of its rows, and of parts together. Parts are merged in one order, so
// the figures are the same however many threads have found them. Pure.
#include <cstdint>
#include <limits>
#include <span>

namespace dtrain::data {

// Of the values that are numbers; NaN are counted beside.
struct Moments {
  std::int64_t count = 0;
  std::int64_t nans = 0;
  double mean = 0;
  double squares = 0;  // sum of the squared distances from the mean
  double least = std::numeric_limits<double>::infinity();
  double most = -std::numeric_limits<double>::infinity();

  void merge(const Moments& other);
  double variance() const { return count == 0 ? 0 : squares / static_cast<double>(count); }
};

Moments moments_of(std::span<const float> values);
Moments moments_of(std::span<const double> values);

// A number for each value: (value - offset) * factor.
struct Scaling {
  double offset = 0, factor = 0;  // factor 0: all values were the same, and become 0
};
Scaling zscore(const Moments& moments);
Scaling minmax(const Moments& moments);  // from 0 to 1

void scale(std::span<const float> values, const Scaling& by, float* out);
void scale(std::span<const double> values, const Scaling& by, double* out);
void scale(std::span<const double> values, const Scaling& by, float* out);

}  // namespace dtrain::data
