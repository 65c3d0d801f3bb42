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

RawValue by_default(const Flag& row) {
  return {row.is_switch() ? "0" : std::string(row.fallback), Origin::fallback, ""};
}

RawValue in_effect(const Flag& row, const std::optional<RawValue>& typed, const Host& host) {
  if (typed) return *typed;
  if (auto variable = of_environment(row, host)) return *std::move(variable);
  return by_default(row);
}

// Both say how many workers there are: who gives one of them overrides what counts less for the other one.
bool says_workers(FlagId id) { return id == FlagId::nproc || id == FlagId::num_proc; }

}  // namespace

void add_file(const FileValues& values, const Host& host, RawOptions& raw) {
  const Options without(raw, host);
  const bool has_workers = without.given(FlagId::nproc) || without.given(FlagId::num_proc);
  for (const Flag& row : flags()) {
    const auto& value = values[static_cast<std::size_t>(row.id)];
    if (value && !without.given(row.id) && !(has_workers && says_workers(row.id))) raw[row.id] = value;
  }
}

Options::Options(const RawOptions& raw, const Host& host) {
  for (const Flag& row : flags()) values_[static_cast<std::size_t>(row.id)] = in_effect(row, raw[row.id], host);
  const auto leave_out = [&](FlagId id) { values_[static_cast<std::size_t>(id)] = by_default(flag(id)); };
  const auto origin = [&](FlagId id) { return (*this)[id].origin; };
  // The variable is of the job whose worker this is; torchrun has no such flag.
  const bool foreign = raw.as_torchrun || host.env.contains("TORCHELASTIC_RUN_ID");
  if (foreign && origin(FlagId::num_proc) == Origin::environment) leave_out(FlagId::num_proc);
  // As says_workers() has it.
  if (origin(FlagId::nproc) < origin(FlagId::num_proc)) leave_out(FlagId::num_proc);
  if (origin(FlagId::num_proc) < origin(FlagId::nproc)) leave_out(FlagId::nproc);
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
