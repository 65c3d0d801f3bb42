#include "data/recipe/apply_plan.h"

#include <string>
#include <vector>

#include "dtrain/data_errors.h"
#include "test/support/catch.h"

using namespace dtrain::data;

namespace {

const std::vector<SourceColumn> kThen = {{"x", ColumnType::float64, "double"},
                                         {"city", ColumnType::text, "string"},
                                         {"label", ColumnType::int64, "int64"},
                                         {"when", ColumnType::other, "date32[day]"}};

CarriedOut carried_out(const std::string& steps) {
  const auto json =
      nlohmann::json::parse(R"({"recipe": {"input": "a.csv", "row_group_rows": 7, "steps": )" + steps + R"(},
      "input": [{"name": "x", "type": "float64"}, {"name": "city", "type": "string"},
                {"name": "label", "type": "int64"}, {"name": "when", "type": "date32[day]"}],
      "columns": [{"name": "x", "type": "double"}], "statistics": []})");
  return parse_carried_out(json, "recipe.json");
}

std::vector<std::string> paths_of(const ProcessPlan& plan) {
  std::vector<std::string> paths;
  for (const Operation& operation : plan.operations) paths.push_back(operation.path);
  return paths;
}

constexpr const char* kSteps = R"([{"select": ["x", "city", "label"]},
    {"filter": [{"column": "label", "op": ">", "value": 0}, {"column": "x", "op": ">", "value": 0}]},
    {"dedup": ["city"]}, {"fill": {"x": "mean"}}, {"normalize": {"x": "zscore", "label": "minmax"}},
    {"vocabulary": {"city": {"size": 3}}}])";
using Paths = std::vector<std::string>;

}  // namespace

TEST_CASE("a recipe is applied in one pass, and rows stay unless filters are asked for") {
  const auto then = carried_out(kSteps);
  const auto plan = plan_to_apply(then, {}, kThen, "new.csv");
  CHECK(paths_of(plan) == Paths{"dataset.steps[3].fill.x", "dataset.steps[4].normalize.label",
                                "dataset.steps[4].normalize.x", "dataset.steps[5].vocabulary.city"});
  CHECK(plan.passes == 1);
  CHECK(plan.output.size() == 3);
  CHECK(plan.read == std::vector<std::size_t>{0, 1, 2});
  const auto filtered = plan_to_apply(then, {true, {}}, kThen, "new.csv");
  CHECK(paths_of(filtered).front() == "dataset.steps[1].filter");
  CHECK(filtered.operations.size() == 5);
}

TEST_CASE("columns that the recipe drops or changes may be kept as they are") {
  const auto then = carried_out(kSteps);
  const auto plan = plan_to_apply(then, {.without = {"label"}, .keep = {"when", "label"}}, kThen, "new.csv");
  REQUIRE(plan.output.size() == 4);
  CHECK(plan.output[2].name == "when");
  CHECK(plan.read[plan.output[2].slot] == 3);
  CHECK(plan.types[plan.output[2].slot] == ColumnType::other);
  CHECK(plan.read[plan.output[3].slot] == 2);
  for (const Operation& operation : plan.operations) CHECK(operation.slots.front() != plan.output[3].slot);
  CHECK_THROWS_WITH(plan_to_apply(then, {.keep = {"x"}}, kThen, "new.csv"),
                    "dtrain: --keep: the recipe's result has a column 'x' already");
  CHECK_THROWS_WITH(plan_to_apply(then, {.keep = {"none"}}, kThen, "new.csv"),
                    "dtrain: new.csv: it has no column 'none', which --keep names");
}

TEST_CASE("the label may be left out, with what is done to it and asked of it") {
  const auto then = carried_out(kSteps);
  const std::vector<SourceColumn> now = {kThen[1], kThen[0]};
  const auto plan = plan_to_apply(then, {true, {"label"}}, now, "new.csv");
  CHECK(paths_of(plan) == Paths{"dataset.steps[1].filter", "dataset.steps[3].fill.x", "dataset.steps[4].normalize.x",
                                "dataset.steps[5].vocabulary.city"});
  CHECK(std::get<std::vector<Condition>>(plan.operations[0].how).size() == 1);
  REQUIRE(plan.output.size() == 2);
  CHECK(plan.read == std::vector<std::size_t>{1, 0});
  CHECK(plan.output[1].name == "city");
  CHECK(plan.read[plan.output[1].slot] == 0);
  CHECK_THROWS_WITH(plan_to_apply(then, {}, now, "new.csv"),
                    "dtrain: new.csv: it has no column 'label', which the recipe reads; if it is the label, leave it "
                    "out: --without label");
  const auto renamed = carried_out(R"([{"filter": {"column": "city", "op": "==", "value": "a"}},
      {"select": ["x", "label"]}, {"rename": {"label": "y"}}])");
  CHECK_THROWS_WITH(plan_to_apply(renamed, {}, {kThen[0]}, "new.csv"), Catch::EndsWith("leave it out: --without y"));
  CHECK_THROWS_WITH(plan_to_apply(renamed, {true, {"y"}}, {kThen[0]}, "new.csv"),
                    "dtrain: new.csv: it has no column 'city', which the recipe reads; a filter needs it: do without "
                    "--filter");
  CHECK_THROWS_WITH(plan_to_apply(then, {false, {"none"}}, kThen, "new.csv"),
                    "dtrain: --without: the recipe's result has no column 'none'");
  CHECK_THROWS_WITH(plan_to_apply(then, {false, {"x", "city", "label"}}, kThen, "new.csv"),
                    "dtrain: --without: no column is left");
}

TEST_CASE("a column of another type becomes what it was then, before all steps") {
  auto now = kThen;
  now[2] = {"label", ColumnType::float64, "double"};
  const auto plan = plan_to_apply(carried_out(kSteps), {}, now, "new.csv");
  REQUIRE(paths_of(plan).front() == "column 'label'");
  CHECK(std::get<ColumnType>(plan.operations[0].how) == ColumnType::int64);
  now[3] = {"when", ColumnType::text, "string"};
  CHECK(plan_to_apply(carried_out(kSteps), {}, now, "new.csv").operations.size() == 5);  // not read
  CHECK_THROWS_WITH(
      plan_to_apply(carried_out("[]"), {}, now, "new.csv"),
      "dtrain: new.csv: column 'when' is string, and where the recipe comes from it was date32[day]; write "
      "it so");
}

TEST_CASE("what a recipe.json is, and how text is read for it") {
  auto then = carried_out(kSteps);
  then.recipe.memory_limit_bytes = 100'000'000;  // of another machine
  then.recipe.threads = then.recipe.parallelism = 64;
  const Recipe recipe = recipe_to_read(then, {.parallelism = 3}, {"new.csv"});
  CHECK(recipe.parallelism == 3);
  CHECK_FALSE(recipe.memory_limit_bytes);
  CHECK_FALSE(recipe.threads);
  CHECK(recipe.input == std::vector<std::string>{"new.csv"});
  CHECK(recipe.row_group_rows == 7);
  const auto types = types_to_read(recipe);
  REQUIRE(types.size() == 3);
  CHECK(types[2] == std::pair<std::string, ColumnType>("label", ColumnType::int64));
  CHECK_THROWS_AS(parse_carried_out(nlohmann::json::object(), "r.json"), RecipeError);
  CHECK_THROWS_WITH(parse_carried_out({{"recipe", {{"input", "a"}, {"processor", {{"type", "dask"}}}}}}, "r.json"),
                    Catch::Contains("a script (backend.processor) has gone first"));
}
