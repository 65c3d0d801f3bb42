// Judges the flags that only torchrun needs.
#include "cli/resolve/torchrun.h"

#include <fmt/format.h>

#include <initializer_list>

#include "cli/base/parse_value.h"
#include "cli/base/usage_error.h"

namespace dtrain::cli {
namespace {

Error not_here(const std::string& why) { return usage_error(why + ": not in this version of dtrain"); }

// What torchrun looks up among the entry points of installed Python packages.
Error python_plugin(const std::string& known, const std::string& instead) {
  return usage_error(fmt::format(
      "expected {}: other names are plugins written in Python, which dtrain does not load; {}", known, instead));
}

// argparse checks choices on the command line only; a variable's value goes unread where it has no use.
Result<void> start_method(const Options& options, bool as_torchrun) {
  const RawValue& value = options[FlagId::start_method];
  if (as_torchrun && value.origin == Origin::environment) return {};
  for (const char* known : {"spawn", "fork", "forkserver"})
    if (value.text == known) return {};
  return options.blame(FlagId::start_method, usage_error("expected spawn, fork or forkserver"));
}

Result<void> monitor_interval(const Options& options) {
  const auto seconds = parse_python_float(options.text(FlagId::monitor_interval));
  if (seconds && *seconds > 0) return {};
  return options.blame(FlagId::monitor_interval, usage_error("expected seconds above 0"));
}

Result<void> logs_specs(const Options& options) {
  if (options.text(FlagId::logs_specs) == "default") return {};
  return options.blame(FlagId::logs_specs,
                       python_plugin("default", "see --log-dir, --tee, --redirects and --log-line-prefix-template"));
}

// A value that would be wrong under torchrun is wrong here, although nothing comes of a right one.
Result<void> judge_unused(const Flag& row, const Options& options, bool as_torchrun) {
  if (row.id == FlagId::start_method) return start_method(options, as_torchrun);
  if (row.id == FlagId::monitor_interval) return monitor_interval(options);
  if (row.id == FlagId::logs_specs) return logs_specs(options);
  return {};
}

Result<void> judge(const Flag& row, const Options& options, bool as_torchrun) {
  const std::string& text = options.text(row.id);
  switch (row.compat) {
    case Compat::missing: {
      // In the environment or a file a switch may be off, which is what this version does.
      bool off = row.is_switch() && options[row.id].origin != Origin::flag && text == "0";
      if (!off) return not_here(options[row.id].where);
      return {};
    }
    case Compat::ignored:
      return judge_unused(row, options, as_torchrun);
    case Compat::none:
      return {};
  }
  return {};
}

// Whether the user should hear that this flag changes nothing.
bool worth_saying(const Flag& row, const Options& options, const RawOptions& raw) {
  if (row.compat != Compat::ignored) return false;
  if (row.id == FlagId::logs_specs) return false;  // the default was asked for, and that is what comes
  return row.id != FlagId::use_env || (!raw.as_launch && options[row.id].text == "1");
}

}  // namespace

Result<std::vector<std::string>> judge_torchrun_flags(const RawOptions& raw, const Options& options) {
  std::string unused;
  for (const Flag& row : flags()) {
    if (!options.given(row.id)) continue;
    if (auto fine = judge(row, options, raw.as_torchrun); !fine) return fine.error();
    if (worth_saying(row, options, raw)) unused += (unused.empty() ? "" : ", ") + options[row.id].where;
  }
  if (unused.empty()) return std::vector<std::string>{};
  return std::vector<std::string>{"no effect: " + unused};
}

std::vector<std::string> judge_torchrun_variables(const Host& host) {
  struct Row {
    const char* name;
    const char* only;  // counts with this value alone; empty: with any
    const char* why;
  };
  constexpr Row kRows[] = {
      {"TORCHELASTIC_ENABLE_FILE_TIMER", "1",
       "dtrain has no timer that kills workers; torch.distributed.elastic.timer.FileTimerClient will find no server"},
      {"TORCHELASTIC_HEALTH_CHECK_PORT", "", "dtrain serves no health check; watch its process instead"},
      {"TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT", "",
       "no effect: after 8 s, dtrain names processes that SIGKILL does not end, and leaves them"},
      {"TORCHELASTIC_ETCD_BINARY_PATH", "", "no effect: dtrain starts an etcd only with --ha, and takes it from PATH"},
  };
  std::vector<std::string> notes;
  for (const Row& row : kRows) {
    std::string value = host.variable(row.name);
    if (!value.empty() && (*row.only == 0 || value == row.only))
      notes.push_back(fmt::format("{}: {}", row.name, row.why));
  }
  return notes;
}

Result<bool> wants_event_log(const Options& options) {
  const std::string& name = options.text(FlagId::event_log_handler);
  if (name == "console") return true;
  if (name == "null" || name == "dynamic_rendezvous") return false;  // torchrun's two that go nowhere
  return options.blame(FlagId::event_log_handler,
                       python_plugin("null or console", "console writes each event as a line of JSON to stderr"));
}

}  // namespace dtrain::cli
