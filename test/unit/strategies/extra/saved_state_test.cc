// What a sampler, a Plateau or a GradScaler saves of itself in a checkpoint's extra: all bits of its numbers come back,
// and nothing that is damaged is read. Their own texts are in batch_sampler_test.cc, schedule_test.cc and amp_test.cc.
#include "strategies/extra/saved_state.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "dtrain/errors.h"
#include "test/support/catch.h"

using namespace dtrain;
using Catch::Matchers::Contains;

namespace {

std::optional<double> there_and_back(double number) {
  const std::string text = with_state("Plateau", {}, "a", {{"x", json_of_number(number)}});
  // A checkpoint makes the text compact: it parses and writes it once more.
  SavedState saved("Plateau", StateJson::parse(text).dump(), "a");
  const std::optional<double> found = saved.any_number("x");
  saved.finish();
  return found;
}

// Of an object under "a".
SavedState saved_with(const std::string& values) { return {"Plateau", R"({"a": {)" + values + "}}", "a"}; }

}  // namespace

TEST_CASE("saved state: a number comes back with all its bits") {
  using Limits = std::numeric_limits<double>;
  std::vector<double> numbers{0.0,
                              -0.0,
                              0.1,
                              1.0 / 3,
                              65536,
                              1e300,
                              Limits::max(),
                              Limits::lowest(),
                              Limits::min(),
                              Limits::denorm_min(),
                              Limits::infinity(),
                              -Limits::infinity(),
                              9007199254740993.0};
  std::mt19937_64 random(1);
  while (numbers.size() < 2000) {
    const auto drawn = std::bit_cast<double>(random());
    if (!std::isnan(drawn)) numbers.push_back(drawn);
  }
  for (const double each : numbers) {
    const std::optional<double> found = there_and_back(each);
    REQUIRE(found);
    REQUIRE(std::bit_cast<std::uint64_t>(*found) == std::bit_cast<std::uint64_t>(each));
  }
}

TEST_CASE("saved state: it joins what is there, and replaces what has its name") {
  CHECK(with_state("Plateau", {}, "a", {{"x", 1}}) == R"({"a":{"x":1}})");
  CHECK(with_state("Plateau", R"({"step": 3, "a": "old"})", "a", {{"x", 1}}) == R"({"a":{"x":1},"step":3})");
  for (const char* text : {"{", "[1]", "7", "null"})
    CHECK_THROWS_WITH(with_state("Plateau", text, "a", {}),
                      Contains("Plateau: what it saves into must be a JSON object"));
}

TEST_CASE("saved state: text that is none is refused, with its place") {
  for (const char* text : {"", "{", R"({"a": {"x": 1})", "[]", "7", "{\"a\": {\"x\": \"\xff\"}}"})
    CHECK_THROWS_WITH(SavedState("Plateau", text, "a"), Contains("is no JSON object") && Contains("save_into()"));
  for (const char* text : {"{}", R"({"a": 1})", R"({"a": [1]})", R"({"a": null})", R"({"b": {}})"})
    CHECK_THROWS_WITH(SavedState("Plateau", text, "a"), Contains("has no object \"a\"") && Contains("save_into()"));
  CHECK_THROWS_AS(SavedState("Plateau", "", "a"), ConfigError);
}

TEST_CASE("saved state: a value that is missing, of another type or out of range is refused") {
  CHECK_THROWS_WITH(saved_with("").flag("x"), Contains(R"(has no "x" in "a")"));
  for (const char* text : {"1", "null", "\"true\"", "{}"})
    CHECK_THROWS_WITH(saved_with(fmt::format(R"("x": {})", text)).flag("x"), Contains("true or false"));
  for (const char* text : {"-1", "1.5", "2147483648", "1e3", "null", "true", "\"1\"", "[]"})
    CHECK_THROWS_WITH(saved_with(fmt::format(R"("x": {})", text)).count("x"),
                      Contains("a whole number from 0 to 2147483647"));
  for (const char* text : {"-1", "0", "-0.0", "null", "true", "\"inf\"", "\"1\"", "[1]"})
    CHECK_THROWS_WITH(saved_with(fmt::format(R"("x": {})", text)).number("x"), Contains("a number above 0"));
  for (const char* text : {"true", "\"1\"", "\"nan\"", "[1]", "{}"})
    CHECK_THROWS_WITH(saved_with(fmt::format(R"("x": {})", text)).any_number("x"), Contains("\"inf\""));
  CHECK_THROWS_WITH(saved_with("\"x\": -1").number("x", /*zero_too=*/true), Contains("a number, 0 or more"));
  CHECK_THROWS_WITH(saved_with("\"x\": \"" + std::string(500, 'y') + "\"").count("x"), Contains("yyy... for \"x\" in"));
  CHECK(saved_with("\"x\": 2147483647").count("x") == 2147483647);
  CHECK(saved_with("\"x\": 65536").number("x") == 65536);
  CHECK(saved_with("\"x\": 0").number("x", /*zero_too=*/true) == 0);
  CHECK_FALSE(saved_with("\"x\": null").any_number("x"));
}

TEST_CASE("saved state: a value for which nobody asks is refused") {
  SavedState saved = saved_with(R"("x": 1, "y": 2)");
  CHECK(saved.count("x") == 1);
  CHECK_THROWS_WITH(saved.finish(), Contains("unknown \"y\" in \"a\""));
  CHECK(saved.count("y") == 2);
  saved.finish();
}
