#include "data/recipe/process_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace dtrain::data {
namespace {

// The columns between two steps.
struct Planned {
  std::string name;
  std::size_t source;
};

class Planner {
 public:
  explicit Planner(const std::vector<SourceColumn>& columns) {
    for (const SourceColumn& column : columns) {
      now_.push_back({column.name, now_.size()});
      types_.push_back(column.type);
      type_names_.push_back(column.type_name);
      ready_.push_back(0);
    }
  }

  void add(const Step& step, const std::string& path) {
    std::visit([&](const auto& one) { take(one, path); }, step);
  }

  ProcessPlan finish(const Split& split) {
    std::set<std::size_t> used;
    for (const Operation& operation : operations_) used.insert(operation.slots.begin(), operation.slots.end());
    for (const Planned& column : now_) used.insert(column.source);
    ProcessPlan plan;
    plan.read.assign(used.begin(), used.end());
    const auto slot_of = [&](std::size_t source) {
      return static_cast<std::size_t>(std::distance(used.begin(), used.find(source)));
    };
    for (Operation& operation : operations_)
      for (std::size_t& slot : operation.slots) slot = slot_of(slot);
    plan.operations = std::move(operations_);
    for (const Planned& column : now_) plan.output.push_back({column.name, slot_of(column.source)});
    for (const std::size_t source : plan.read) plan.types.push_back(types_[source]);
    if (split.by) plan.split_slot = slot_of(find(*split.by, "dataset.split.by"));
    plan.passes = passes_;
    return plan;
  }

 private:
  std::size_t find(const std::string& column, const std::string& path) const {
    for (const Planned& planned : now_)
      if (planned.name == column) return planned.source;
    std::string known;
    for (std::size_t i = 0; i < std::min<std::size_t>(now_.size(), kNamesMax); ++i)
      known += (known.empty() ? "" : ", ") + now_[i].name;
    throw RecipeError(path, fmt::format("there is no column '{}' here; there are {}{}", column, known,
                                        now_.size() > kNamesMax ? ", ..." : ""));
  }

  [[noreturn]] void refuse(std::size_t source, const std::string& path, const std::string& text) const {
    throw RecipeError(path, fmt::format("the column is {}; {}", type_name(source), text));
  }

  std::string type_name(std::size_t source) const {
    return types_[source] == ColumnType::other ? type_names_[source] : name_of(types_[source]);
  }

  // Without a statistic an operation happens as soon as its columns and the rows are known.
  void apply(Operation operation) {
    int pass = rows_;
    for (const std::size_t source : operation.slots) pass = std::max(pass, ready_[source]);
    operation.applied = pass;
    for (const std::size_t source : operation.slots) ready_[source] = pass;
    operations_.push_back(std::move(operation));
  }

  void gather(Operation operation) {
    int pass = rows_;
    for (const std::size_t source : operation.slots) pass = std::max(pass, ready_[source]);
    operation.gathered = pass;
    gathered_ = std::max(gathered_, pass);
    operation.applied = pass + 1;
    passes_ = std::max(passes_, pass + 2);
    for (const std::size_t source : operation.slots) ready_[source] = pass + 1;
    operations_.push_back(std::move(operation));
  }

  void take(const Select& step, const std::string& path) {
    std::vector<Planned> next;
    for (std::size_t i = 0; i < step.columns.size(); ++i)
      next.push_back({step.columns[i], find(step.columns[i], fmt::format("{}.select[{}]", path, i))});
    now_ = std::move(next);
  }

  void take(const Rename& step, const std::string& path) {
    std::vector<Planned> next = now_;
    for (const auto& [old, name] : step.names) {
      const std::size_t source = find(old, fmt::format("{}.rename.{}", path, old));
      std::find_if(next.begin(), next.end(), [&](const Planned& one) { return one.source == source; })->name = name;
    }
    for (const auto& [old, name] : step.names) {
      const std::string& wanted = name;
      if (std::count_if(next.begin(), next.end(), [&](const Planned& one) { return one.name == wanted; }) > 1)
        throw RecipeError(fmt::format("{}.rename.{}", path, old), fmt::format("two columns would be '{}'", name));
    }
    now_ = std::move(next);
  }

  void take(const Cast& step, const std::string& path) {
    for (const auto& [column, type] : step.types) {
      const std::string key = fmt::format("{}.cast.{}", path, column);
      const std::size_t source = find(column, key);
      if (types_[source] == ColumnType::other)
        refuse(source, key, fmt::format("only {} can be cast. Leave it out by select", column_type_names()));
      apply({type, key, column, {source}, {}, 0});
      types_[source] = type;
    }
  }

  void take(const Filter& step, const std::string& path) {
    Operation operation{step.conditions, path + ".filter", step.conditions.front().column, {}, {}, 0};
    for (std::size_t i = 0; i < step.conditions.size(); ++i) {
      const Condition& condition = step.conditions[i];
      const std::string key = step.conditions.size() == 1 ? operation.path : fmt::format("{}[{}]", operation.path, i);
      const std::size_t source = find(condition.column, key + ".column");
      check_value(source, condition.value, key + ".value");
      const bool of_order = condition.op != Comparison::equal && condition.op != Comparison::not_equal;
      if (of_order && types_[source] == ColumnType::boolean)
        throw RecipeError(key + ".op", "the column is bool: == and != are the comparisons of those");
      operation.slots.push_back(source);
    }
    // Statistics of the steps before it are of the rows before it.
    rows_ = std::max(rows_, gathered_);
    apply(std::move(operation));
    rows_ = operations_.back().applied;
  }

  void take(const Fill& step, const std::string& path) {
    for (const auto& [column, with] : step.columns) {
      const std::string key = fmt::format("{}.fill.{}", path, column);
      const std::size_t source = find(column, key);
      Operation operation{FillTo{with}, key, column, {source}, {}, 0};
      if (const auto* value = std::get_if<Value>(&with)) {
        check_value(source, *value, key);
        if (is_integer(types_[source]) && std::holds_alternative<double>(*value))
          refuse(source, key, "a value with a fraction fits none of its rows. Cast the column first");
        apply(std::move(operation));
        continue;
      }
      const bool mean = std::get<FillWith>(with) == FillWith::mean;
      if (mean && !is_float(types_[source]))
        refuse(source, key, "a mean has a fraction. Cast it to a float type first");
      if (types_[source] == ColumnType::other) refuse(source, key, "values of this type are not counted");
      gather(std::move(operation));
    }
  }

  void take(const Normalize& step, const std::string& path) {
    for (const auto& [column, scale] : step.columns) {
      const std::string key = fmt::format("{}.normalize.{}", path, column);
      const std::size_t source = find(column, key);
      if (!is_number(types_[source])) refuse(source, key, "only numbers can be normalized. Cast it first");
      gather({scale, key, column, {source}, {}, 0});
      types_[source] = types_[source] == ColumnType::float64 ? ColumnType::float64 : ColumnType::float32;
    }
  }

  void take(const Vocabulary& step, const std::string& path) {
    for (const auto& [column, of] : step.columns) {
      const std::string key = fmt::format("{}.vocabulary.{}", path, column);
      const std::size_t source = find(column, key);
      if (!is_integer(types_[source]) && types_[source] != ColumnType::text && types_[source] != ColumnType::boolean)
        refuse(source, key, "only texts, integers and bool have a vocabulary. Cast it first");
      gather({of, key, column, {source}, {}, 0});
      types_[source] = of.one_hot ? ColumnType::other : ColumnType::int32;
      if (of.one_hot) type_names_[source] = "a list of uint8";
    }
  }

  void take(const Dedup& step, const std::string& path) {
    Operation operation{Distinct{}, path + ".dedup", step.columns.front(), {}, {}, 0};
    for (std::size_t i = 0; i < step.columns.size(); ++i) {
      const std::string key = fmt::format("{}[{}]", operation.path, i);
      operation.slots.push_back(find(step.columns[i], key));
      if (types_[operation.slots.back()] == ColumnType::other)
        refuse(operation.slots.back(), key, "only numbers, texts and bool are compared");
    }
    rows_ = std::max(rows_, gathered_);
    gather(std::move(operation));
    rows_ = operations_.back().applied;
  }

  // Whether values of the column can be compared with this one, or be it.
  void check_value(std::size_t source, const Value& value, const std::string& path) const {
    const ColumnType type = types_[source];
    const bool number = std::holds_alternative<std::int64_t>(value) || std::holds_alternative<double>(value);
    const bool fits =
        number ? is_number(type)
               : (std::holds_alternative<bool>(value) ? type == ColumnType::boolean : type == ColumnType::text);
    const char* what = number ? "a number" : (std::holds_alternative<bool>(value) ? "true or false" : "a text");
    if (!fits) refuse(source, path, fmt::format("and this is {}. Cast the column first, or change the value", what));
  }

  static constexpr std::size_t kNamesMax = 20;
  std::vector<Planned> now_;
  std::vector<ColumnType> types_;  // of the source's columns, as they are now
  std::vector<std::string> type_names_;
  std::vector<int> ready_;  // the pass from which on the column is known
  int rows_ = 0;            // the pass from which on it is known which rows stay
  int gathered_ = 0;        // the last pass in which a step so far gathers
  std::vector<Operation> operations_;
  int passes_ = 1;
};

}  // namespace

std::vector<bool> ProcessPlan::slots_of_pass(int pass) const {
  std::vector<bool> needed(read.size(), pass + 1 == passes);
  for (const Operation& operation : operations)
    if (operation.applied <= pass || operation.gathered == pass)
      for (const std::size_t slot : operation.slots) needed[slot] = true;
  return needed;
}

std::int64_t Growth::bytes(std::int64_t unit_bytes, std::int64_t rows) const {
  return std::max(static_cast<std::int64_t>(static_cast<double>(unit_bytes) * times), rows * row_bytes);
}

Growth growth_of(const ProcessPlan& plan, const std::vector<SourceColumn>& columns) {
  constexpr std::int64_t kTextBytes = 16;  // texts, and what else has no fixed size: a guess
  constexpr std::int64_t kBeside = 12;     // a row's number and its key
  const auto bytes_of = [](ColumnType type) { return type < ColumnType::text ? value_bytes(type) : kTextBytes; };
  std::int64_t before = kBeside, after = kBeside;
  for (const SourceColumn& column : columns) before += bytes_of(column.type);
  for (const OutputColumn& column : plan.output) {
    std::int64_t bytes = bytes_of(plan.types[column.slot]);
    for (const Operation& operation : plan.operations)
      if (const auto* of = std::get_if<VocabularyOf>(&operation.how);
          of != nullptr && of->one_hot && operation.slots.front() == column.slot)
        bytes = of->size + 1;
    after += bytes;
  }
  if (after <= before) return {};
  return {static_cast<double>(after) / static_cast<double>(before), after};
}

ProcessPlan plan_process(const Recipe& recipe, const std::vector<SourceColumn>& columns) {
  Planner planner(columns);
  for (std::size_t i = 0; i < recipe.steps.size(); ++i)
    planner.add(recipe.steps[i], fmt::format("dataset.steps[{}]", i));
  return planner.finish(recipe.split);
}

}  // namespace dtrain::data
