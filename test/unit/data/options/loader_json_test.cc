// Options of a loader as JSON.
#include "data/options/loader_json.h"

#include "dtrain/errors.h"
#include "test/support/catch.h"

using namespace dtrain;
using Catch::Matchers::Equals;

namespace {

ParquetLoaderOptions options_of(const std::string& text) {
  ParquetLoaderOptions options{.paths = {"kept"}, .batch_size = 3};
  data::set_options("W", text, options);
  return options;
}

ParquetLoaderOptions section_of(const std::string& text) {
  ParquetLoaderOptions options;
  data::set_loader_section("DTRAIN_LOADER", text, options);
  return options;
}

std::string why(ParquetLoaderOptions (*read)(const std::string&), const std::string& text) {
  try {
    read(text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("every option has a key") {
  const auto options =
      options_of(R"({"paths": ["a", "b"], "columns": ["c"], "matrices": {"x": ["d", "e"]}, "fill": {"c": -1, "d": 0.5},
      "batch_size": 7, "rank": 1, "world_size": 2, "shuffle": false, "seed": 18446744073709551615,
      "window_size_bytes": 500000000, "fully_executed": true, "drop_last": true, "prefetch": 9})");
  CHECK(options.paths == std::vector<std::string>{"a", "b"});
  CHECK(options.columns == std::vector<std::string>{"c"});
  CHECK(options.matrices.at("x") == std::vector<std::string>{"d", "e"});
  CHECK(options.fill == std::map<std::string, double>{{"c", -1}, {"d", 0.5}});
  CHECK(options.batch_size == 7);
  CHECK(options.rank == 1);
  CHECK(options.world_size == 2);
  CHECK_FALSE(options.shuffle);
  CHECK(options.seed == UINT64_MAX);
  CHECK(options.window_size_bytes == 500'000'000);
  CHECK(options.fully_executed);
  CHECK(options.drop_last);
  CHECK(options.prefetch == 9);
}

TEST_CASE("what is not named stays") {
  const auto options = options_of("{}");
  CHECK(options.paths == std::vector<std::string>{"kept"});
  CHECK(options.batch_size == 3);
}

TEST_CASE("a window is a number, null or auto") {
  CHECK(section_of(R"({"window_size_bytes": 1})").window_size_bytes == 1);
  CHECK(section_of(R"({"window_size_bytes": null, "fully_executed": true})").window_size_bytes == 0);
  CHECK(section_of(R"({"window_size_bytes": "auto"})").window_size_bytes == ParquetLoaderOptions::auto_window);
}

TEST_CASE("keys and values that make no sense") {
  CHECK_THAT(why(section_of, R"({"prefetch": 4})"),
             Equals("dtrain: DTRAIN_LOADER: there is no key 'prefetch'; it has window_size_bytes, fully_executed"));
  CHECK_THAT(why(section_of, R"({"a\nb\u001b[2J": 4})"),
             Equals("dtrain: DTRAIN_LOADER: there is no key 'a?b?[2J'; it has window_size_bytes, fully_executed"));
  for (const std::string value : {"0", "-1", "1.5", "true", "\"500MB\"", "9223372036854775808"}) {
    CHECK_THAT(why(section_of, R"({"window_size_bytes": )" + value + "}"),
               Equals("dtrain: DTRAIN_LOADER: window_size_bytes is " + value +
                      "; it must be a number of bytes, null for all rows at once, or \"auto\""));
  }
  CHECK_THAT(why(section_of, R"({"fully_executed": 1})"),
             Equals("dtrain: DTRAIN_LOADER: fully_executed is 1; it must be true or false"));
  for (const std::string text : {"", "[]", "{", "null", "3"}) {
    CHECK_THAT(why(section_of, text), Equals("dtrain: DTRAIN_LOADER: it is no JSON object"));
  }
  const std::pair<const char*, const char*> others[] = {
      {R"({"batch_size": 1.5})", "dtrain: W: batch_size is 1.5; it must be a whole number"},
      {R"({"rank": 2147483648})", "dtrain: W: rank is 2147483648; it must be a whole number of 32 bits"},
      {R"({"seed": -1})", "dtrain: W: seed is -1; it must be a whole number of 0 or more"},
      {R"({"paths": "a"})", "dtrain: W: paths is \"a\"; it must be an array of strings"},
      {R"({"columns": [1]})", "dtrain: W: columns is [1]; it must be an array of strings"},
      {R"({"matrices": {"x": "a"}})",
       "dtrain: W: matrices is {\"x\":\"a\"}; it must be an object of arrays of strings"},
      {R"({"fill": {"c": "0"}})", "dtrain: W: fill is {\"c\":\"0\"}; it must be an object of numbers"},
      {R"({"shuffle": null})", "dtrain: W: shuffle is null; it must be true or false"},
      {R"({"seed": "\u007f"})", "dtrain: W: seed is \"?\"; it must be a whole number of 0 or more"}};
  for (const auto& [text, expected] : others) {
    CHECK_THAT(why(options_of, text), Equals(expected));
  }
}
