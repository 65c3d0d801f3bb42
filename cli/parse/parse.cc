// CLI11 over the flag table: it takes the values, counts them, and knows where the program begins. This is the only
// file that includes it.
#include "cli/parse/parse.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <utility>

#include "cli/base/text.h"
#include "cli/parse/spelling.h"

namespace dtrain::cli {
namespace {

// "-t,--tee": every name of the flag, as CLI11 wants them.
std::string cli11_names(const Flag& row) {
  std::string names = spelled(row);
  if (!row.alias.empty()) names += fmt::format(",--{}", row.alias);
  if (row.letter != 0) names += fmt::format(",-{}", row.letter);
  return names;
}

// Only names and arity: help, the environment, types and defaults are the business of help.cc, options.cc and
// resolve.cc. CLI11's own help, configuration file and environment are off.
class Grammar {
 public:
  Grammar() {
    app_.set_help_flag();
    app_.allow_windows_style_options(false);
    app_.prefix_command();  // the first word that is no flag ends the flags
    for (const Flag& row : flags()) options_[static_cast<std::size_t>(row.id)] = add(row);
  }

  // Throws CLI::ParseError.
  void parse(std::vector<std::string> words) {
    std::reverse(words.begin(), words.end());  // CLI11 reads from the back
    app_.parse(std::move(words));
  }

  std::string value(FlagId id) const {
    return flag(id).is_switch() ? "1" : options_[static_cast<std::size_t>(id)]->reduced_results().front();
  }

  // Whether a `--` ended the flags.
  bool ended() const {
    const std::vector<std::string> left = app_.remaining();
    return !left.empty() && left[0] == "--";
  }

  std::vector<std::string> command(CalledAs called) const {
    std::vector<std::string> left = app_.remaining();
    if (ended())
      left.erase(left.begin());
    else if (called != CalledAs::dtrain && left.size() > 1 && left[1] == "--")
      left.erase(left.begin() + 1);
    return left;
  }

 private:
  CLI::Option* add(const Flag& row) {
    CLI::Option* option = row.is_switch() ? app_.add_flag(cli11_names(row)) : app_.add_option(cli11_names(row));
    return option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }

  CLI::App app_;
  std::array<CLI::Option*, kFlagCount> options_{};
};

// CLI11's "--tee: 1 required TEXT missing" in our words. It reads from left to right, and stops at the first mistake:
// only the last flag can lack its value.
Error mistake(const CLI::ParseError& error, const std::vector<TypedFlag>& typed) {
  if (typed.empty() || dynamic_cast<const CLI::ArgumentMismatch*>(&error) == nullptr)
    return {ErrorKind::usage, printable(error.what())};
  const Flag& row = flag(typed.back().id);
  return {ErrorKind::usage, fmt::format("{} needs a value: {} {}", typed.back().typed, spelled(row), row.value)};
}

// --backend NAME is --engine NAME, and --backend FILE is --config FILE.
Result<void> split_backend(RawOptions& raw) {
  auto& backend = raw[FlagId::backend];
  if (!backend) return {};
  const FlagId meant = backend->text.find_first_of("./") == std::string::npos ? FlagId::engine : FlagId::config;
  if (raw[meant])
    return Error{ErrorKind::usage,
                 fmt::format("{} and {} say the same: leave out one of the two", backend->where, raw[meant]->where)};
  raw[meant] = std::exchange(backend, std::nullopt);
  return {};
}

}  // namespace

Result<RawOptions> parse(std::span<const std::string> words, CalledAs called) {
  auto spelled_out = spell_out(words, called);
  if (!spelled_out) return spelled_out.error();
  Grammar grammar;
  try {
    grammar.parse(std::move(spelled_out->words));
  } catch (const CLI::ParseError& error) {
    return mistake(error, spelled_out->flags);
  }
  RawOptions out;
  for (TypedFlag& typed : spelled_out->flags)
    out[typed.id] = RawValue{typed.chosen.empty() ? grammar.value(typed.id) : std::move(typed.chosen), Origin::flag,
                             std::move(typed.typed)};
  out.command = grammar.command(called);
  out.ended = grammar.ended();
  out.as_torchrun = called != CalledAs::dtrain;
  out.as_launch = called == CalledAs::launch;
  if (auto done = split_backend(out); !done) return done.error();
  return out;
}

}  // namespace dtrain::cli
