#include "data/recipe/apply_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "data/recipe/limits.h"
#include "dtrain/data_errors.h"

namespace dtrain::data {
namespace {

std::vector<SourceColumn> columns_in(const nlohmann::json& list) {
  std::vector<SourceColumn> columns;
  for (const auto& one : list) {
    SourceColumn column{one.at("name").get<std::string>(), ColumnType::other, one.at("type").get<std::string>()};
    column.type = column_type_of(column.type_name).value_or(ColumnType::other);
    columns.push_back(std::move(column));
  }
  return columns;
}

bool is_filter(const Operation& operation) { return std::holds_alternative<std::vector<Condition>>(operation.how); }

// Takes the conditions away that are on these slots. False: none is left.
bool leave_conditions_out(Operation& operation, const std::set<std::size_t>& slots) {
  auto& conditions = std::get<std::vector<Condition>>(operation.how);
  for (std::size_t i = conditions.size(); i-- > 0;) {
    if (!slots.contains(operation.slots[i])) continue;
    conditions.erase(conditions.begin() + static_cast<std::ptrdiff_t>(i));
    operation.slots.erase(operation.slots.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return !conditions.empty();
}

// The slots of output columns that are not wanted; the columns go.
std::set<std::size_t> take_out(ProcessPlan& plan, const std::vector<std::string>& names) {
  std::set<std::size_t> slots;
  for (const std::string& name : names) {
    const auto column =
        std::find_if(plan.output.begin(), plan.output.end(), [&](const OutputColumn& one) { return one.name == name; });
    if (column == plan.output.end())
      throw RecipeError("--without", fmt::format("the recipe's result has no column '{}'", name));
    slots.insert(column->slot);
    plan.output.erase(column);
  }
  if (plan.output.empty()) throw RecipeError("--without", "no column is left");
  return slots;
}

// A cast of a column whose type is not what it was; nothing: it is the same.
std::optional<Operation> cast_to_then(const SourceColumn& then, const SourceColumn& now, std::size_t slot,
                                      const std::string& file) {
  const bool same = then.type == now.type && (then.type != ColumnType::other || then.type_name == now.type_name);
  if (same) return std::nullopt;
  if (then.type == ColumnType::other || now.type == ColumnType::other)
    throw DataError(fmt::format("dtrain: {}: column '{}' is {}, and where the recipe comes from it was {}; write it so",
                                file, then.name, now.type_name, then.type_name));
  return Operation{then.type, "column '" + then.name + "'", then.name, {slot}, {}, 0};
}

// Columns of the raw files that the output gets as they are.
void add_kept(ProcessPlan& plan, const std::vector<std::string>& names, const std::vector<SourceColumn>& found,
              const std::string& file) {
  for (const std::string& name : names) {
    if (std::any_of(plan.output.begin(), plan.output.end(), [&](const OutputColumn& one) { return one.name == name; }))
      throw RecipeError("--keep", fmt::format("the recipe's result has a column '{}' already", name));
    const auto column =
        std::find_if(found.begin(), found.end(), [&](const SourceColumn& one) { return one.name == name; });
    if (column == found.end())
      throw DataError(fmt::format("dtrain: {}: it has no column '{}', which --keep names", file, name));
    plan.output.push_back({name, plan.read.size()});
    plan.read.push_back(static_cast<std::size_t>(column - found.begin()));
    plan.types.push_back(column->type);
  }
}

// What the user can do if a file has no such column.
std::string without_slot(const ProcessPlan& plan, std::size_t slot) {
  for (const OutputColumn& column : plan.output)
    if (column.slot == slot) return "if it is the label, leave it out: --without " + column.name;
  return "a filter needs it: do without --filter";
}

}  // namespace

CarriedOut parse_carried_out(const nlohmann::json& json, const std::string& file) {
  try {
    if (json.at("recipe").contains("processor"))
      throw RecipeError(file, "a script (backend.processor) has gone first, which is not applied to raw rows yet");
    CarriedOut then{parse_recipe(json.at("recipe")), {}, columns_in(json.at("columns")), json.at("statistics")};
    if (json.contains("input")) then.input = columns_in(json.at("input"));
    return then;
  } catch (const nlohmann::json::exception&) {
    throw RecipeError(file, "this is no recipe.json as `dtrain preprocess` writes it beside its result");
  }
}

ProcessPlan plan_to_apply(const CarriedOut& then, const ApplyAsked& asked, const std::vector<SourceColumn>& found,
                          const std::string& file) {
  const std::vector<SourceColumn>& known = then.input.empty() ? found : then.input;
  Recipe recipe = then.recipe;
  recipe.split.by.reset();
  ProcessPlan whole = plan_process(recipe, known);
  const std::set<std::size_t> without = take_out(whole, asked.without);

  std::set<std::size_t> needed;
  for (const OutputColumn& column : whole.output) needed.insert(column.slot);
  for (Operation& operation : whole.operations)
    if (is_filter(operation) && asked.filter && leave_conditions_out(operation, without))
      needed.insert(operation.slots.begin(), operation.slots.end());

  ProcessPlan plan;
  std::map<std::size_t, std::size_t> slot_of;  // of the whole plan's slots
  for (const std::size_t slot : needed) {
    const SourceColumn& column = known[whole.read[slot]];
    const auto now =
        std::find_if(found.begin(), found.end(), [&](const SourceColumn& one) { return one.name == column.name; });
    if (now == found.end())
      throw DataError(fmt::format("dtrain: {}: it has no column '{}', which the recipe reads; {}", file, column.name,
                                  without_slot(whole, slot)));
    const std::size_t place = slot_of[slot] = plan.read.size();
    plan.read.push_back(static_cast<std::size_t>(now - found.begin()));
    plan.types.push_back(whole.types[slot]);
    if (auto cast = cast_to_then(column, *now, place, file)) plan.operations.push_back(std::move(*cast));
  }
  for (Operation& operation : whole.operations) {
    const bool drops_rows = is_filter(operation) || std::holds_alternative<Distinct>(operation.how);
    if (drops_rows && !(is_filter(operation) && asked.filter && !operation.slots.empty())) continue;
    if (!needed.contains(operation.slots.front())) continue;
    for (std::size_t& slot : operation.slots) slot = slot_of.at(slot);
    operation.applied = 0;
    plan.operations.push_back(std::move(operation));
  }
  for (const OutputColumn& column : whole.output) plan.output.push_back({column.name, slot_of.at(column.slot)});
  add_kept(plan, asked.keep, found, file);
  return plan;
}

Recipe recipe_to_read(const CarriedOut& then, const ApplyAsked& asked, const std::vector<std::string>& input) {
  Recipe recipe;
  recipe.input = input;
  Cast types;
  for (const SourceColumn& column : then.input)
    if (column.type != ColumnType::other) types.types.emplace_back(column.name, column.type);
  // A number that a text has may not be one: 007.
  if (!input.empty() && input.front().ends_with(".csv"))
    for (const std::string& name : asked.keep)
      if (std::none_of(then.input.begin(), then.input.end(), [&](const auto& one) { return one.name == name; }))
        types.types.emplace_back(name, ColumnType::text);
  recipe.steps = {types};
  recipe.split.shares = {{"rows", 1.0}};
  recipe.shuffle = false;
  recipe.row_group_rows = then.recipe.row_group_rows;
  recipe.parallelism = asked.parallelism;
  recipe.memory_limit_bytes = asked.memory_limit_bytes;
  if (asked.memory_limit_bytes && *asked.memory_limit_bytes < kLeastMemory)
    throw RecipeError("backend.processor.memory_limit_bytes",
                      fmt::format("{} is less than {}", *asked.memory_limit_bytes, kLeastMemory));
  return recipe;
}

}  // namespace dtrain::data
