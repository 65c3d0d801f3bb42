// Look-ups in the table (flag_table.cc).
#include "cli/table/flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "cli/base/text.h"

namespace dtrain::cli {
namespace {

char dashed(char c) { return c == '_' ? '-' : c; }

bool same_name(std::string_view typed, std::string_view name) {
  return std::equal(typed.begin(), typed.end(), name.begin(), name.end(),
                    [](char a, char b) { return dashed(a) == b; });
}

bool starts(std::string_view name, std::string_view prefix) {
  return name.size() >= prefix.size() && same_name(prefix, name.substr(0, prefix.size()));
}

std::string with(std::string name, char in_place_of, char now) {
  std::replace(name.begin(), name.end(), in_place_of, now);
  return name;
}

}  // namespace

std::string_view typed_for(CalledAs called) {
  if (called == CalledAs::launch) return "dtrain launch";
  return called == CalledAs::torchrun ? "torchrun" : "dtrain run";
}

const Flag& flag(FlagId id) { return flags()[static_cast<std::size_t>(id)]; }
std::string spelled(const Flag& flag) { return "--" + std::string(flag.name); }

std::string dtrain_variable(const Flag& flag) {
  // --insecure is typed, or nobody has said it.
  bool in_environment = flag.group != Group::torchrun && flag.id != FlagId::help && flag.id != FlagId::version &&
                        flag.id != FlagId::print_completion && flag.id != FlagId::insecure &&
                        flag.id != FlagId::backend;
  return in_environment ? "DTRAIN_" + with(upper(flag.name), '-', '_') : "";
}

std::string pet_variable(const Flag& flag) { return flag.pet.empty() ? "" : "PET_" + std::string(flag.pet); }

std::string torchrun_name(const Flag& flag) {
  if (!flag.pet.empty()) return with(lower(flag.pet), '_', '-');
  // Those that torchrun does not read from the environment.
  constexpr FlagId kWithoutVariable[] = {FlagId::numa_binding, FlagId::print_completion, FlagId::help,
                                         FlagId::logs_specs, FlagId::use_env};
  bool known =
      std::find(std::begin(kWithoutVariable), std::end(kWithoutVariable), flag.id) != std::end(kWithoutVariable);
  return known ? std::string(flag.name) : "";
}

const Flag* find_flag(std::string_view name) {
  for (const Flag& row : flags())
    if (same_name(name, row.name) || (!row.alias.empty() && same_name(name, row.alias))) return &row;
  return nullptr;
}

const Flag* find_letter(char letter) {
  for (const Flag& row : flags())
    if (letter != 0 && row.letter == letter) return &row;
  return nullptr;
}

std::vector<const Flag*> flags_with_prefix(std::string_view prefix, CalledAs called) {
  std::vector<const Flag*> found;
  for (const Flag& row : flags()) {
    bool matches = called == CalledAs::dtrain ? starts(row.name, prefix) || starts(row.alias, prefix)
                                              : starts(torchrun_name(row), prefix);
    if (matches) found.push_back(&row);
  }
  return found;
}

std::vector<const Flag*> supported(Group group) {
  std::vector<const Flag*> rows;
  for (const Flag& row : flags())
    if (row.group == group && row.compat == Compat::none) rows.push_back(&row);
  return rows;
}

std::string synopsis(const Flag& row) {
  std::string out = row.letter != 0 ? fmt::format("-{}, ", row.letter) : "";
  out += spelled(row);
  if (!row.is_switch()) return fmt::format("{} {}", out, row.value);
  return row.choices.empty() ? out : fmt::format("{}[={}]", out, row.choices);
}

std::string variables(const Flag& row, std::string_view quote) {
  std::string out;
  for (const std::string& name : {dtrain_variable(row), pet_variable(row), std::string(row.also)})
    if (!name.empty()) out += fmt::format("{}{}{}{}", out.empty() ? "" : ", ", quote, name, quote);
  return out;
}

std::string in_words(std::string_view choices, std::string_view quote) {
  std::string out;
  for (const std::string& word : split(choices, ','))
    if (!word.empty()) out += fmt::format("{}{}{}{}", out.empty() ? "" : ", ", quote, word, quote);
  return out;
}

std::string_view title(Group group) {
  switch (group) {
    case Group::workers:
      return "Workers";
    case Group::nodes:
      return "Nodes";
    case Group::program:
      return "Program";
    case Group::stopping:
      return "Stopping";
    case Group::output:
      return "Output";
    case Group::general:
      return "General";
    case Group::torchrun:
      return "Known from torchrun";
  }
  return "";
}

}  // namespace dtrain::cli
