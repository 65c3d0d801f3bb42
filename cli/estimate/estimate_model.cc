// Tested by test/unit/cli/estimate/estimate_test.cc.
#include "cli/estimate/estimate_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "cli/base/text.h"
#include "cli/base/usage_error.h"

namespace dtrain::cli {
namespace {

constexpr std::int64_t kUsualUnits = 32;

struct UnitName {
  std::string name;     // "model.layers.0"; empty: the parameter belongs to no unit
  std::string pattern;  // "model.layers.N"
};

// The name up to the first part that is a number, if something comes behind it.
UnitName first_numbered(const std::string& name) {
  UnitName found;
  const std::vector<std::string> parts = split(name, '.');
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    const bool number = all_digits(parts[i]);
    found.name += (i == 0 ? "" : ".") + parts[i];
    found.pattern += (i == 0 ? "" : ".") + (number ? "N" : parts[i]);
    if (number) return found;
  }
  return {};
}

UnitName by_pattern(const std::string& name, const std::string& pattern) {
  const std::vector<std::string> parts = split(name, '.'), wanted = split(pattern, '.');
  if (parts.size() <= wanted.size()) return {};
  UnitName found{.name = {}, .pattern = pattern};
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] == "N" ? !all_digits(parts[i]) : wanted[i] != parts[i]) return {};
    found.name += (i == 0 ? "" : ".") + parts[i];
  }
  return found;
}

UnitName unit_of(const std::string& name, const std::vector<std::string>& patterns) {
  if (patterns.empty()) return first_numbered(name);
  for (const std::string& pattern : patterns)
    if (UnitName found = by_pattern(name, pattern); !found.name.empty()) return found;
  return {};
}

}  // namespace

Result<EstimatedModel> model_of(const std::vector<EstimatedParameter>& parameters,
                                const std::vector<std::string>& patterns, std::int64_t whole_elements) {
  EstimatedModel model;
  std::map<std::string, std::int64_t> units;
  std::map<std::string, std::set<std::string>> by_pattern;
  for (const EstimatedParameter& each : parameters) {
    model.size.largest = std::max(model.size.largest, each.elements);
    const UnitName unit = unit_of(each.name, patterns);
    if (!unit.name.empty()) by_pattern[unit.pattern].insert(unit.name);
    if (unit.name.empty() || each.elements <= whole_elements) {
      model.size.rest += each.elements;
    } else {
      units[unit.name] += each.elements;
    }
  }
  for (const std::string& pattern : patterns)
    if (!by_pattern.contains(pattern))
      return usage_error(fmt::format("--units '{}' fits no parameter; the first is {}", printable(pattern),
                                     printable(parameters.empty() ? "" : parameters.front().name, 200)));
  for (const auto& [name, elements] : units) model.size.units.push_back(elements);
  for (const auto& [pattern, names] : by_pattern)
    model.patterns.push_back(fmt::format("{} of {}", names.size(), printable(pattern, 200)));
  return model;
}

EstimatedModel model_of(std::int64_t parameters, std::int64_t units) {
  EstimatedModel model;
  const std::int64_t wanted = std::min(units > 0 ? units : kUsualUnits, parameters);
  model.size.units.assign(static_cast<std::size_t>(wanted), parameters / wanted);
  model.size.rest = parameters % wanted;
  model.size.largest = parameters / wanted;  // it cannot be larger, and how large it is nobody says
  model.patterns.push_back(fmt::format("{} of one size{}", wanted, units > 0 ? "" : ", assumed"));
  return model;
}

}  // namespace dtrain::cli
