#include <string>

#include "data/recipe/recipe.h"
#include "test/support/catch.h"

using namespace dtrain::data;
using nlohmann::json;

namespace {

std::string refused(const std::string& text) {
  try {
    parse_recipe(json::parse(text));
  } catch (const RecipeError& error) {
    CHECK(std::string(error.what()).starts_with("dtrain: " + error.path + ": "));
    return error.what();
  }
  return "accepted";
}

std::string refused_step(const std::string& step) {
  return refused(R"({"input": ["a.csv"], "steps": [{"select": ["x"]}, )" + step + "]}");
}

}  // namespace

TEST_CASE("recipe: every key") {
  const Recipe recipe = parse_recipe(json::parse(R"({
    "input": ["/data/*.csv", "more"], "format": "csv", "seed": 7, "shuffle": false, "row_group_rows": 100,
    "steps": [{"select": ["a", "b"]}, {"rename": {"a": "x"}}, {"cast": {"x": "float32"}},
              {"filter": {"column": "x", "op": ">=", "value": 0}},
              {"filter": [{"column": "b", "op": "!=", "value": "no"}, {"column": "x", "op": "<", "value": 0.5}]},
              {"fill": {"b": "mode", "x": 1.5, "y": "mean", "z": "text"}},
              {"normalize": {"x": "zscore", "y": "minmax"}},
              {"vocabulary": {"b": {"size": 10, "output": "one_hot"}, "c": {"size": 5}}}, {"dedup": ["a", "b"]}],
    "split": {"by": "id", "train": 0.9, "validation": 0.1},
    "parallelism": 4, "persist": false, "memory_limit_bytes": 100000000, "threads": 3})"));
  CHECK(recipe.input == std::vector<std::string>{"/data/*.csv", "more"});
  CHECK(recipe.format == InputFormat::csv);
  CHECK(recipe.seed == 7);
  CHECK(!recipe.shuffle);
  CHECK(recipe.row_group_rows == 100);
  CHECK(recipe.parallelism == 4);
  CHECK(!recipe.persist);
  CHECK(recipe.memory_limit_bytes == 100'000'000);
  CHECK(recipe.threads == 3);
  CHECK(recipe.split.by == "id");
  CHECK(recipe.split.shares.size() == 2);
  REQUIRE(recipe.steps.size() == 9);
  CHECK(std::get<Rename>(recipe.steps[1]).names.front() == std::pair<std::string, std::string>("a", "x"));
  CHECK(std::get<Cast>(recipe.steps[2]).types.front().second == ColumnType::float32);
  CHECK(std::get<Filter>(recipe.steps[3]).conditions.front().op == Comparison::greater_equal);
  CHECK(std::get<Filter>(recipe.steps[4]).conditions.back().value == Value(0.5));
  const auto& fill = std::get<Fill>(recipe.steps[5]).columns;
  CHECK(std::get<FillWith>(fill[0].second) == FillWith::mode);
  CHECK(std::get<Value>(fill[1].second) == Value(1.5));
  CHECK(std::get<FillWith>(fill[2].second) == FillWith::mean);
  CHECK(std::get<Value>(fill[3].second) == Value(std::string("text")));
  CHECK(std::get<Normalize>(recipe.steps[6]).columns[1].second == Scale::minmax);
  CHECK(std::get<Vocabulary>(recipe.steps[7]).columns[0].second.one_hot);
  CHECK(std::get<Vocabulary>(recipe.steps[7]).columns[1].second.size == 5);
}

TEST_CASE("recipe: what holds without a key, and null") {
  for (const char* text : {R"({"input": "a.parquet"})",
                           R"({"input": "a.parquet", "format": null, "split": null, "parallelism": null,
                               "memory_limit_bytes": null, "threads": null, "row_group_rows": null})"}) {
    const Recipe recipe = parse_recipe(json::parse(text));
    CHECK(recipe.shuffle);
    CHECK(recipe.persist);
    CHECK(!recipe.format);
    CHECK(!recipe.parallelism);
    CHECK(!recipe.split.by);
    CHECK(recipe.split.shares == std::vector<std::pair<std::string, double>>{{"train", 1.0}});
    CHECK(recipe.row_group_rows == 16384);
  }
}

TEST_CASE("recipe: an error names the path of its key") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"([])", "dataset: this is array, and must be a map"},
      {R"({"seed": 1})", "dataset: 'input' is missing"},
      {R"({"input": []})", "dataset.input: the list is empty"},
      {R"({"input": [1]})", "dataset.input[0]: this is number"},
      {R"({"input": ["a", "a"]})", "dataset.input[1]: 'a' is in the list twice"},
      {R"({"input": "a", "stepz": []})", "dataset.stepz: no such key; there are input, format"},
      {R"({"input": "a", "format": "xml"})", "dataset.format: 'xml' is none of csv, ipc, json, parquet"},
      {R"({"input": "a", "seed": -1})", "dataset.seed: -1 is no number from 0"},
      {R"({"input": "a", "seed": 1.5})", "dataset.seed: this is number, and must be a whole number"},
      {R"({"input": "a", "shuffle": "yes"})", "dataset.shuffle: this is string, and must be true or false"},
      {R"({"input": "a", "steps": {}})", "dataset.steps: this is object, and must be a list of steps"},
      {R"({"input": "a", "row_group_rows": 0})", "dataset.row_group_rows: 0 is no number from 1"},
      {R"({"input": "a", "parallelism": 0})", "backend.processor.parallelism: 0 is no number from 1"},
      {R"({"input": "a", "persist": null})", "backend.processor.persist: this is null"},
      {R"({"input": "a", "memory_limit_bytes": 5})", "backend.processor.memory_limit_bytes: 5 is no number from"},
      {R"({"input": "a", "threads": 99999})", "threads: at most 4096"},
      {R"({"input": "a", "split": {"train": 0.5}})", "dataset.split: the shares add up to 0.5"},
      {R"({"input": "a", "split": {"train": 2}})", "dataset.split.train: 2 is no share"},
      {R"({"input": "a", "split": {"../x": 1}})", "dataset.split.../x: a part's name"},
      {R"({"input": "a", "split": {"used": 1}})", "dataset.split.used: a part's name"},
      {R"({"input": "a", "split": {"": 1}})", "dataset.split.: a part's name"},
      {R"({"input": "a", "split": {"by": "id"}})", "dataset.split: the shares add up to 0"},
  };
  for (const auto& [text, words] : cases) CHECK_THAT(refused(text), Catch::Contains(words));
}

TEST_CASE("recipe: an error of a step") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"sort": ["x"]})", "dataset.steps[1].sort: no such step; there are cast, dedup, fill"},
      {R"({"cast": {"x": "int8"}, "fill": {"x": 0}})", "dataset.steps[1]: a step has one key"},
      {R"({"cast": {}})", "dataset.steps[1].cast: nothing is in it"},
      {R"({"cast": {"x": "float"}})", "dataset.steps[1].cast.x: 'float' is no type; there are bool"},
      {R"({"select": ["x", "x"]})", "dataset.steps[1].select[1]: 'x' is in the list twice"},
      {R"({"rename": {"x": ""}})", "dataset.steps[1].rename.x: the text is empty"},
      {R"({"filter": {"column": "x", "op": "=", "value": 1}})", "dataset.steps[1].filter.op: '=' is none of !=, <"},
      {R"({"filter": {"column": "x", "op": "<"}})", "dataset.steps[1].filter: 'value' is missing"},
      {R"({"filter": [{"column": "x", "op": "<", "value": null}]})", "dataset.steps[1].filter[0].value: this is null"},
      {R"({"filter": [{"column": "x", "op": "<", "value": 1, "or": 2}]})",
       "dataset.steps[1].filter[0].or: no such key"},
      {R"({"fill": {"x": [1]}})", "dataset.steps[1].fill.x: this is array"},
      {R"({"fill": {"x": 9223372036854775808}})", "dataset.steps[1].fill.x: 9223372036854775808 is no number"},
      {R"({"normalize": {"x": "max"}})", "dataset.steps[1].normalize.x: 'max' is none of minmax, zscore"},
      {R"({"vocabulary": {"x": {"output": "index"}}})", "dataset.steps[1].vocabulary.x: 'size' is missing"},
      {R"({"vocabulary": {"x": {"size": 0}}})", "dataset.steps[1].vocabulary.x.size: 0 is no number from 1"},
      {R"({"vocabulary": {"x": {"size": 100000, "output": "one_hot"}}})", "vocabulary.x.size: 100000 is more than"},
  };
  for (const auto& [step, words] : cases) CHECK_THAT(refused_step(step), Catch::Contains(words));
}

TEST_CASE("recipe: casts before all other steps say how text files are read") {
  const Recipe recipe = parse_recipe(json::parse(R"({"input": "a.csv", "steps": [
    {"rename": {"a": "b", "b": "a"}}, {"cast": {"a": "int8"}}, {"select": ["a", "c"]},
    {"cast": {"a": "float32", "c": "string"}},
    {"fill": {"a": 0}}, {"cast": {"d": "int8"}}]})"));
  CHECK(types_to_read(recipe) ==
        std::vector<std::pair<std::string, ColumnType>>{{"b", ColumnType::int8}, {"c", ColumnType::text}});
}
