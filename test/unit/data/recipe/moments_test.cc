#include "data/recipe/moments.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "data/base/random_bits.h"
#include "test/support/catch.h"

using namespace dtrain::data;

namespace {

std::vector<double> drawn(std::size_t count, double offset) {
  std::vector<double> values;
  for (std::size_t i = 0; i < count; ++i)
    values.push_back(offset + static_cast<double>(random_bits(7, i) >> 11) * 0x1p-53);
  return values;
}

}  // namespace

TEST_CASE("recipe: moments are those of the formula, also far from zero") {
  for (const std::size_t count : {1U, 7U, 8U, 4096U, 10'001U}) {
    const auto values = drawn(count, 1e6);
    long double sum = 0, squares = 0;
    for (const double value : values) sum += value;
    const long double mean = sum / static_cast<long double>(count);
    for (const double value : values) squares += (value - mean) * (value - mean);
    const Moments found = moments_of(std::span<const double>(values));
    CHECK(found.count == static_cast<std::int64_t>(count));
    CHECK(std::abs(found.mean - static_cast<double>(mean)) < 1e-9);
    CHECK(std::abs(found.squares - static_cast<double>(squares)) < 1e-6);
    CHECK(found.least == *std::min_element(values.begin(), values.end()));
    CHECK(found.most == *std::max_element(values.begin(), values.end()));
  }
}

TEST_CASE("recipe: parts that are merged have the moments of all, and an empty part changes nothing") {
  const auto values = drawn(5000, 100);
  const std::span<const double> all(values);
  Moments merged;
  merged.merge(moments_of(all.first(1)));
  merged.merge(Moments{});
  merged.merge(moments_of(all.subspan(1, 3000)));
  merged.merge(moments_of(all.subspan(3001)));
  const Moments whole = moments_of(all);
  CHECK(merged.count == whole.count);
  CHECK(merged.mean == Approx(whole.mean).epsilon(1e-14));
  CHECK(merged.variance() == Approx(whole.variance()).epsilon(1e-12));
}

TEST_CASE("recipe: NaN are counted beside the numbers") {
  const std::vector<float> values{1, NAN, 3, NAN};
  const Moments found = moments_of(std::span<const float>(values));
  CHECK(found.count == 2);
  CHECK(found.nans == 2);
  CHECK(found.mean == 2);
  const std::vector<float> none{NAN};
  CHECK(moments_of(std::span<const float>(none)).count == 0);
}

TEST_CASE("recipe: scaling to mean 0 and deviation 1, or from 0 to 1") {
  const std::vector<double> values{2, 4, 6};
  const Moments moments = moments_of(std::span<const double>(values));
  std::vector<double> out(3);
  scale(values, zscore(moments), out.data());
  CHECK(out[0] == Approx(-std::sqrt(1.5)));
  CHECK(out[1] == 0);
  scale(values, minmax(moments), out.data());
  CHECK(out == std::vector<double>{0, 0.5, 1});
}

TEST_CASE("recipe: equal values become 0, though their mean is not exact") {
  const std::vector<float> values(10'007, 0.1F);
  const Moments moments = moments_of(std::span<const float>(values));
  std::vector<float> out(values.size());
  for (const Scaling& by : {zscore(moments), minmax(moments)}) {
    scale(values, by, out.data());
    CHECK(std::all_of(out.begin(), out.end(), [](float value) { return value == 0; }));
  }
}
