// Options of a mixture as JSON.
#include "data/options/mixture_json.h"

#include "dtrain/errors.h"
#include "test/support/catch.h"

using namespace dtrain;
using Catch::Matchers::Equals;

namespace {

MixtureLoaderOptions mixture_of(const std::string& text) {
  MixtureLoaderOptions options{.batch_size = 3, .window_size_bytes = 5};
  data::set_options("M", text, options);
  return options;
}

std::string why_not(const std::string& text) {
  try {
    mixture_of(text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("every option of a mixture has a key") {
  const auto options = mixture_of(
      R"({"sources": [{"name": "b", "paths": ["x", "y"], "weight": 0.5, "window_size_bytes": 7, "seed": 9},
      {"name": "a", "paths": ["z"], "window_size_bytes": null}], "epoch_ends": "first",
      "columns": ["c"], "matrices": {"x": ["d", "e"]}, "fill": {"c": -1}, "batch_size": 7, "rank": 1, "world_size": 2,
      "shuffle": false, "seed": 18446744073709551615, "window_size_bytes": 500, "fully_executed": true,
      "drop_last": true, "prefetch": 9})");
  REQUIRE(options.sources.size() == 2);
  CHECK(options.sources[0].name == "b");
  CHECK(options.sources[0].paths == std::vector<std::string>{"x", "y"});
  CHECK(options.sources[0].weight == 0.5);
  CHECK(options.sources[0].window_size_bytes == 7);
  CHECK(options.sources[0].seed == 9U);
  CHECK(options.sources[1].weight == 1);
  CHECK(options.sources[1].window_size_bytes == 0);
  CHECK_FALSE(options.sources[1].seed);
  CHECK(options.epoch_ends == MixtureEnd::first);
  CHECK(options.columns == std::vector<std::string>{"c"});
  CHECK(options.matrices.at("x") == std::vector<std::string>{"d", "e"});
  CHECK(options.fill == std::map<std::string, double>{{"c", -1}});
  CHECK(options.batch_size == 7);
  CHECK(options.rank == 1);
  CHECK(options.world_size == 2);
  CHECK_FALSE(options.shuffle);
  CHECK(options.seed == UINT64_MAX);
  CHECK(options.window_size_bytes == 500);
  CHECK(options.fully_executed);
  CHECK(options.drop_last);
  CHECK(options.prefetch == 9);
  CHECK(mixture_of(R"({"epoch_ends": "all"})").epoch_ends == MixtureEnd::all);
  CHECK(mixture_of(R"({"epoch_ends": "never"})").epoch_ends == MixtureEnd::never);
}

TEST_CASE("what is not named of a mixture stays") {
  const auto options = mixture_of("{}");
  CHECK(options.batch_size == 3);
  CHECK(options.window_size_bytes == 5);
  CHECK(options.epoch_ends == MixtureEnd::unset);
  CHECK_FALSE(mixture_of(R"({"sources": [{"name": "a"}]})").sources[0].window_size_bytes);
}

TEST_CASE("a mixture's options that make no sense are named") {
  CHECK_THAT(why_not("[]"), Equals("dtrain: M: it is no JSON object"));
  CHECK_THAT(why_not(R"({"paths": ["a"]})"), Equals("dtrain: M: paths are those of the sources"));
  CHECK_THAT(why_not(R"({"sources": {}})"), Equals("dtrain: M: sources is {}; it must be an array of objects"));
  CHECK_THAT(why_not(R"({"sources": ["a"]})"), Equals("dtrain: M: sources is \"a\"; it must be an array of objects"));
  CHECK_THAT(why_not(R"({"sources": [{}]})"), Equals("dtrain: M: the name of a source is null; it must be a string"));
  CHECK_THAT(why_not(R"({"sources": [{"name": "a", "weight": "b"}]})"),
             Equals("dtrain: M: source 'a': weight is \"b\"; it must be a number"));
  CHECK_THAT(why_not(R"({"sources": [{"name": "a", "rank": 0}]})"),
             Equals("dtrain: M: source 'a': there is no key 'rank'; a source has name, paths, weight, "
                    "window_size_bytes and seed"));
  CHECK_THAT(why_not(R"({"sources": [{"name": "a", "paths": "b"}]})"),
             Equals("dtrain: M: source 'a': paths is \"b\"; it must be an array of strings"));
  CHECK_THAT(why_not(R"({"epoch_ends": "last"})"),
             Equals("dtrain: M: epoch_ends is \"last\"; it must be \"first\", \"all\" or \"never\""));
  CHECK_THAT(why_not(R"({"batch_size": "a"})"), Equals("dtrain: M: batch_size is \"a\"; it must be a whole number"));
}
