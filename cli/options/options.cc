// Merges flags, environment and defaults.
// Tested by test/unit/cli/resolve/resolve_test.cc.
#include "cli/options/options.h"

#include <fmt/format.h>

#include "cli/base/text.h"

namespace dtrain::cli {
namespace {

RawValue in_effect(const Flag& row, const std::optional<RawValue>& typed, const Host& host) {
  if (typed) return *typed;
  for (const std::string& name : {dtrain_variable(row), pet_variable(row), std::string(row.also)}) {
    std::string value = name.empty() ? "" : host.variable(name);
    if (!value.empty()) return {value, Origin::environment, name};
  }
  return {row.is_switch() ? "0" : std::string(row.fallback), Origin::fallback, ""};
}

}  // namespace

Options::Options(const RawOptions& raw, const Host& host) {
  for (const Flag& row : flags()) values_[static_cast<std::size_t>(row.id)] = in_effect(row, raw[row.id], host);
}

void Options::suggest(FlagId id, const std::string& text, const std::string& where) {
  if (!given(id)) values_[static_cast<std::size_t>(id)] = {text, Origin::environment, where};
}

Error Options::blame(FlagId id, const Error& error) const {
  const RawValue& value = (*this)[id];
  std::string where = value.where.empty() ? spelled(flag(id)) : value.where;
  const char* between = value.origin == Origin::environment ? "=" : " ";
  return error.in(fmt::format("{}{}'{}'", where, between, printable(value.text)));
}

Result<bool> Options::on(FlagId id) const {
  auto parsed = parse_switch(text(id));
  if (!parsed) return blame(id, parsed.error());
  return parsed;
}

}  // namespace dtrain::cli
