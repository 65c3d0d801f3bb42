// Fuzzes the recipe of `dataset`: it is refused with the path of a key, or it is a recipe that is the same when read
// again, and a plan for some columns, or a refusal again.
#include <cstdint>
#include <numeric>
#include <set>
#include <string>

#include "data/base/one_line.h"
#include "data/cache/cache_key.h"
#include "data/recipe/process_plan.h"
#include "data/recipe/recipe.h"
#include "rendezvous/base/check.h"
#include "test/fuzz/one_line.h"

using namespace dtrain;
using namespace dtrain::data;

namespace {

void check_refusal(const RecipeError& error) {
  DT_CHECK(std::string(error.what()).starts_with("dtrain: " + error.path + ": "), "a refusal names a key");
  check_one_line(one_line(error.what()));
}

void check_recipe(const Recipe& recipe) {
  DT_CHECK(!recipe.input.empty() && recipe.row_group_rows > 0, "ranges hold");
  double sum = 0;
  for (const auto& [part, share] : recipe.split.shares) sum += share;
  DT_CHECK(sum > 0.999 && sum < 1.001, "every row has a part");
  std::set<std::string> read;
  for (const auto& [column, type] : types_to_read(recipe))
    DT_CHECK(read.insert(column).second && type != ColumnType::other, "a column is read as one type");
  const Recipe again = parse_recipe(recipe.text);
  DT_CHECK(again.steps.size() == recipe.steps.size() && again.split.shares == recipe.split.shares, "read again");
  DT_CHECK(cache_key(recipe.text, {}) == cache_key(canonical_recipe(recipe.text), {}), "one key");
}

void check_plan(const Recipe& recipe) {
  const std::vector<SourceColumn> columns{{"a", ColumnType::int32, ""}, {"b", ColumnType::float32, ""},
                                          {"c", ColumnType::text, ""},  {"d", ColumnType::boolean, ""},
                                          {"e", ColumnType::other, ""}, {"f", ColumnType::uint64, ""}};
  const ProcessPlan plan = plan_process(recipe, columns);
  for (const std::size_t column : plan.read) DT_CHECK(column < columns.size(), "only what is there is read");
  for (const OutputColumn& column : plan.output) DT_CHECK(column.slot < plan.read.size(), "it comes from a column");
  DT_CHECK(plan.types.size() == plan.read.size() && plan.passes >= 1, "each slot has a type");
  for (const Operation& operation : plan.operations) {
    DT_CHECK(operation.applied < plan.passes, "each operation is applied");
    DT_CHECK(!operation.gathered || *operation.gathered < operation.applied, "what it must know is found before");
  }
  const Growth growth = growth_of(plan, columns);
  DT_CHECK(growth.times >= 1 && growth.row_bytes >= 0, "rows take room");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return 0;
  try {
    const Recipe recipe = parse_recipe(json);
    check_recipe(recipe);
    check_plan(recipe);
  } catch (const RecipeError& error) {
    check_refusal(error);
  }
  return 0;
}
