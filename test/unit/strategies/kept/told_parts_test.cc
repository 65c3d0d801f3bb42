// What ranks tell of the tensors that they keep in parts.
#include "strategies/kept/told_parts.h"

#include "test/support/catch.h"

using namespace dtrain::kept;

TEST_CASE("parts are told as text") {
  const ToldParts told{.value_bytes = 128, .parts = {{0, 0, 4, 0}, {7, 12, 0, 64}}};
  CHECK(told_text(told) == "128 0 0 4 0 7 12 0 64");
  CHECK(parse_told(told_text(told)).parts == told.parts);
  CHECK(parse_told(told_text(told)).value_bytes == 128);
  CHECK(parse_told("0").parts.empty());
}

TEST_CASE("the first element that no rank has is found") {
  const std::vector<ToldParts> two{{64, {{0, 0, 4, 0}, {1, 3, 3, 0}}}, {64, {{0, 4, 4, 0}, {1, 0, 2, 0}}}};
  CHECK_FALSE(missing_element(two, 0, 8));
  CHECK(missing_element(two, 0, 9) == 8);
  CHECK(missing_element(two, 1, 6) == 2);
  CHECK(missing_element(two, 2, 1) == 0);
  CHECK_FALSE(missing_element(two, 2, 0));
  // Parts may overlap, and may lie in one another.
  const std::vector<ToldParts> over{{64, {{0, 0, 6, 0}, {0, 1, 2, 0}}}, {64, {{0, 5, 3, 0}}}};
  CHECK_FALSE(missing_element(over, 0, 8));
}
