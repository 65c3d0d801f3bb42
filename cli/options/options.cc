// Merges flags, environment, a config file and defaults.
// Tested by test/unit/cli/resolve/resolve_test.cc.
#include "cli/options/options.h"

#include <fmt/format.h>

#include "cli/base/text.h"

namespace dtrain::cli {
namespace {

std::optional<RawValue> of_environment(const Flag& row, const Host& host) {
  for (const std::string& name : {dtrain_variable(row), pet_variable(row), std::string(row.also)}) {
    std::string value = name.empty() ? "" : host.variable(name);
    if (!value.empty()) return RawValue{std::move(value), Origin::environment, name};
  }
  return std::nullopt;
}

RawValue in_effect(const Flag& row, const std::optional<RawValue>& typed, const Host& host) {
  if (typed) return *typed;
  if (auto variable = of_environment(row, host)) return *std::move(variable);
  return {row.is_switch() ? "0" : std::string(row.fallback), Origin::fallback, ""};
}

// Two flags that say the same in two ways: who typed one goes before a variable's or a file's other one.
void settle(RawValue& one, RawValue& other) {
  if (one.origin == other.origin) return;
  RawValue& later = one.origin < other.origin ? other : one;
  later = {"", Origin::fallback, ""};
}

}  // namespace

void add_file(const FileValues& values, const Host& host, RawOptions& raw) {
  for (const Flag& row : flags()) {
    const auto& value = values[static_cast<std::size_t>(row.id)];
    if (value && !raw[row.id] && !of_environment(row, host)) raw[row.id] = value;
  }
}

Options::Options(const RawOptions& raw, const Host& host) {
  for (const Flag& row : flags()) values_[static_cast<std::size_t>(row.id)] = in_effect(row, raw[row.id], host);
  RawValue &each = values_[static_cast<std::size_t>(FlagId::nproc)],
           &all = values_[static_cast<std::size_t>(FlagId::num_proc)];
  // The variable is of the job whose worker this is; torchrun has no such flag.
  const bool foreign = raw.as_torchrun || host.env.contains("TORCHELASTIC_RUN_ID");
  if (foreign && all.origin == Origin::environment) all = {"", Origin::fallback, ""};
  settle(each, all);
  if (each.origin == Origin::fallback) each.text = flag(FlagId::nproc).fallback;
}

bool Options::insists_on(FlagId id) const {
  const Origin origin = (*this)[id].origin;
  return origin == Origin::flag || (origin == Origin::file && (*this)[FlagId::engine].origin >= Origin::file);
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
