#include "data/recipe/process_plan.h"

#include <string>

#include "test/support/catch.h"

using namespace dtrain::data;
using nlohmann::json;

namespace {

const std::vector<SourceColumn> kColumns = {
    {"id", ColumnType::int64, "int64"}, {"x", ColumnType::float32, "float"}, {"y", ColumnType::float64, "double"},
    {"c", ColumnType::text, "string"},  {"b", ColumnType::boolean, "bool"},  {"t", ColumnType::other, "timestamp[s]"},
    {"n", ColumnType::int32, "int32"},
};

ProcessPlan planned(const std::string& steps, const std::string& more = "") {
  return plan_process(parse_recipe(json::parse(R"({"input": "a", "steps": [)" + steps + "]" + more + "}")), kColumns);
}

std::string plan_refused(const std::string& steps, const std::string& more = "") {
  try {
    planned(steps, more);
  } catch (const RecipeError& error) {
    return error.what();
  }
  return "accepted";
}

// "gathered>applied" of each operation
std::string passes(const std::string& steps) {
  std::string text;
  for (const Operation& operation : planned(steps).operations) {
    if (!text.empty()) text += " ";
    if (operation.gathered) text += std::to_string(*operation.gathered) + ">";
    text += std::to_string(operation.applied);
  }
  return text;
}

}  // namespace

TEST_CASE("plan: only columns that are used are read, and names lead to the right ones") {
  const ProcessPlan plan =
      planned(R"({"rename": {"x": "y", "y": "x"}}, {"cast": {"x": "float32"}}, {"select": ["y", "x"]})");
  CHECK(plan.read == std::vector<std::size_t>{1, 2});
  REQUIRE(plan.output.size() == 2);
  CHECK(plan.output[0].name == "y");
  CHECK(plan.output[0].slot == 0);
  REQUIRE(plan.operations.size() == 1);
  CHECK(plan.operations[0].slots == std::vector<std::size_t>{1});
  CHECK(plan.operations[0].path == "dataset.steps[1].cast.x");
  CHECK(plan.types == std::vector<ColumnType>{ColumnType::float32, ColumnType::float32});
  CHECK(plan.passes == 1);
}

TEST_CASE("plan: statistics are gathered as soon as what they are of is known") {
  CHECK(
      passes(R"({"filter": {"column": "x", "op": ">", "value": 0}}, {"normalize": {"x": "zscore", "y": "minmax"}})") ==
      "0 0>1 0>1");
  CHECK(passes(R"({"fill": {"x": "mean"}}, {"normalize": {"x": "zscore", "y": "zscore"}})") == "0>1 1>2 0>1");
  CHECK(passes(R"({"fill": {"x": 0}}, {"normalize": {"x": "zscore"}}, {"cast": {"x": "float64"}})") == "0 0>1 1");
  // A filter that waits makes all that follow wait.
  CHECK(passes(R"({"normalize": {"x": "zscore"}}, {"filter": {"column": "x", "op": ">", "value": 0}},
                  {"normalize": {"y": "zscore"}})") == "0>1 1 1>2");
  CHECK(passes(R"({"dedup": ["id"]}, {"normalize": {"y": "zscore"}}, {"vocabulary": {"c": {"size": 3}}})") ==
        "0>1 1>2 1>2");
}

TEST_CASE("plan: no row goes before the statistics of earlier steps are gathered") {
  CHECK(passes(
            R"({"fill": {"x": "mean"}}, {"normalize": {"x": "zscore"}},
                  {"filter": {"column": "y", "op": ">", "value": 0}}, {"dedup": ["id"]})") == "0>1 1>2 1 1>2");
}

TEST_CASE("plan: what each pass needs") {
  const ProcessPlan plan =
      planned(R"({"filter": {"column": "b", "op": "==", "value": true}}, {"normalize": {"x": "zscore"}},
                                      {"select": ["x", "id"]})");
  CHECK(plan.read == std::vector<std::size_t>{0, 1, 4});
  CHECK(plan.slots_of_pass(0) == std::vector<bool>{false, true, true});
  CHECK(plan.slots_of_pass(1) == std::vector<bool>{true, true, true});
}

TEST_CASE("plan: wider rows need more memory") {
  const auto growth = [](const std::string& steps) { return growth_of(planned(steps), kColumns).times; };
  const double before = 12 + 8 + 4 + 8 + 16 + 1 + 16 + 4;
  CHECK(growth("") == 1);
  CHECK(growth(R"({"select": ["id"]})") == 1);
  CHECK(growth(R"({"cast": {"b": "int64"}})") == (before + 7) / before);
  const std::string one_hot = R"({"vocabulary": {"c": {"size": 999, "output": "one_hot"}}})";
  CHECK(growth(one_hot) == (before + 984) / before);
  // Texts that repeat are small in the file, and the lists are not.
  const Growth wide = growth_of(planned(one_hot), kColumns);
  CHECK(wide.bytes(1000, 0) > 15'000);
  CHECK(wide.bytes(1000, 1000) == 1000 * (static_cast<std::int64_t>(before) + 984));
  CHECK(growth_of(planned(""), kColumns).bytes(1000, 1000) == 1000);
}

TEST_CASE("plan: a step that does not fit its column") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"select": ["id", "z"]})", "dataset.steps[0].select[1]: there is no column 'z' here; there are id, x"},
      {R"({"select": ["id"]}, {"fill": {"x": 0}})",
       "dataset.steps[1].fill.x: there is no column 'x' here; there are id"},
      {R"({"rename": {"x": "y"}})", "dataset.steps[0].rename.x: two columns would be 'y'"},
      {R"({"cast": {"t": "int64"}})", "dataset.steps[0].cast.t: the column is timestamp[s]; only bool"},
      {R"({"filter": {"column": "c", "op": "<", "value": 1}})", "dataset.steps[0].filter.value: the column is string"},
      {R"({"filter": [{"column": "b", "op": "<", "value": true}]})", "dataset.steps[0].filter.op: the column is bool"},
      {R"({"filter": [{"column": "x", "op": "<", "value": 1}, {"column": "x", "op": "<", "value": "1"}]})",
       "dataset.steps[0].filter[1].value: the column is float32"},
      {R"({"fill": {"n": 0.5}})", "dataset.steps[0].fill.n: the column is int32; a value with a fraction"},
      {R"({"fill": {"n": "mean"}})", "dataset.steps[0].fill.n: the column is int32; a mean"},
      {R"({"fill": {"t": "mode"}})", "dataset.steps[0].fill.t: the column is timestamp[s]"},
      {R"({"normalize": {"c": "zscore"}})", "dataset.steps[0].normalize.c: the column is string; only numbers"},
      {R"({"vocabulary": {"x": {"size": 3}}})", "dataset.steps[0].vocabulary.x: the column is float32"},
      {R"({"vocabulary": {"c": {"size": 3, "output": "one_hot"}}}, {"cast": {"c": "int8"}})",
       "dataset.steps[1].cast.c: the column is a list of uint8"},
      {R"({"dedup": ["id", "t"]})", "dataset.steps[0].dedup[1]: the column is timestamp[s]"},
  };
  for (const auto& [steps, words] : cases) CHECK_THAT(plan_refused(steps), Catch::Contains(words));
  CHECK_THAT(plan_refused(R"({"select": ["x"]})", R"(, "split": {"by": "id", "train": 1})"),
             Catch::Contains("dataset.split.by: there is no column 'id' here"));
}
