#pragma once
// Every flag's value in effect: what was typed, else the environment, else a config file, else the table's default.
// Pure.
#include <string>

#include "cli/base/parse_value.h"
#include "cli/machine/host.h"
#include "cli/parse/parse.h"

namespace dtrain::cli {

// What a config file says, by FlagId.
using FileValues = std::array<std::optional<RawValue>, kFlagCount>;

// Puts the file's values into `raw`, but those that a flag or the environment overrides. So whoever sends what was
// typed to another node sends these too.
void add_file(const FileValues& values, const Host& host, RawOptions& raw);

class Options {
 public:
  Options(const RawOptions& raw, const Host& host);

  const RawValue& operator[](FlagId id) const { return values_[static_cast<std::size_t>(id)]; }
  const std::string& text(FlagId id) const { return (*this)[id].text; }
  // Whether the user said anything, by flag, environment or file.
  bool given(FlagId id) const { return (*this)[id].origin != Origin::fallback; }

  // Whether the user means this flag of an engine for this job: it is typed; or it is in the file that chooses the
  // engine. A variable, or a file whose engine a flag overrides, may be for other jobs.
  bool insists_on(FlagId id) const;

  // A value for a flag of which the user said nothing; `where` names the variable that it comes from.
  void suggest(FlagId id, const std::string& text, const std::string& where);

  // A value in place of one that was given, of which only this part can be had. Where it comes from stays.
  void narrow(FlagId id, const std::string& text) { values_[static_cast<std::size_t>(id)].text = text; }

  // Put the flag and its value in front of an error about the value: "--nproc '0': expected ...".
  Error blame(FlagId id, const Error& error) const;

  // The value of a switch.
  Result<bool> on(FlagId id) const;

 private:
  std::array<RawValue, kFlagCount> values_;
};

}  // namespace dtrain::cli
