#include "strategies/extra/saved_state.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <utility>

#include "dtrain/errors.h"

namespace dtrain {
namespace {

constexpr std::size_t kLongestShown = 60;

std::string shown_state(const StateJson& value) {
  const std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true);
  return text.size() <= kLongestShown ? text : text.substr(0, kLongestShown) + "...";
}

StateJson parsed_extra(const std::string& extra) {
  return StateJson::parse(extra, nullptr, /*allow_exceptions=*/false);
}

std::optional<double> json_number(const StateJson& value) {
  if (value.is_number()) return value.get<double>();
  if (value == "inf") return std::numeric_limits<double>::infinity();
  if (value == "-inf") return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

}  // namespace

StateJson json_of_number(double number) {
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  return number;
}

std::string with_state(const char* whose, const std::string& extra, const std::string& key, StateJson state) {
  StateJson all = extra.empty() ? StateJson::object() : parsed_extra(extra);
  if (!all.is_object()) {
    throw ConfigError(
        fmt::format("dtrain: {}: what it saves into must be a JSON object, to get the key \"{}\"", whose, key));
  }
  all[key] = std::move(state);
  return all.dump();
}

SavedState::SavedState(const char* whose, const std::string& extra, const std::string& key) : whose_(whose), key_(key) {
  StateJson all = parsed_extra(extra);
  const auto found = all.is_object() ? all.find(key) : all.end();
  if (found == all.end() || !found->is_object()) {
    throw ConfigError(fmt::format(
        "dtrain: {}: the checkpoint's extra {}; save it with save_into() of a {}, or leave out restore() to begin anew",
        whose, all.is_object() ? fmt::format("has no object \"{}\"", key) : "is no JSON object", whose));
  }
  state_ = std::move(*found);
}

void SavedState::finish() const {
  for (const auto& item : state_.items()) {
    if (seen_.contains(item.key())) continue;
    throw ConfigError(fmt::format(
        "dtrain: {}: the checkpoint's extra has the unknown \"{}\" in \"{}\"; it is not of save_into() of this version",
        whose_, item.key().substr(0, kLongestShown), key_));
  }
}

const StateJson& SavedState::value(const char* name) {
  seen_.emplace(name);
  const auto found = state_.find(name);
  if (found != state_.end()) return *found;
  throw ConfigError(fmt::format("dtrain: {}: the checkpoint's extra has no \"{}\" in \"{}\"; it is not of save_into()",
                                whose_, name, key_));
}

void SavedState::refuse(const std::string& name, const std::string& wanted) const {
  throw ConfigError(fmt::format("dtrain: {}: the checkpoint's extra has {} for \"{}\" in \"{}\", and it must be {}",
                                whose_, shown_state(state_.at(name)), name, key_, wanted));
}

bool SavedState::flag(const char* name) {
  const StateJson& found = value(name);
  if (!found.is_boolean()) refuse(name, "true or false");
  return found.get<bool>();
}

std::uint64_t SavedState::whole(const char* name, std::uint64_t most) {
  const StateJson& found = value(name);
  if (!found.is_number_unsigned() || found.get<std::uint64_t>() > most)
    refuse(name, fmt::format("a whole number from 0 to {}", most));
  return found.get<std::uint64_t>();
}

double SavedState::number(const char* name, bool zero_too) {
  const std::optional<double> found = json_number(value(name));
  const bool fits = found && std::isfinite(*found) && (*found > 0 || (zero_too && *found == 0));
  if (!fits) refuse(name, zero_too ? "a number, 0 or more" : "a number above 0");
  return *found;
}

std::optional<double> SavedState::any_number(const char* name) {
  const StateJson& found = value(name);
  if (found.is_null()) return std::nullopt;
  const std::optional<double> number = json_number(found);
  if (!number) refuse(name, "a number, \"inf\", \"-inf\" or null");
  return number;
}

}  // namespace dtrain
