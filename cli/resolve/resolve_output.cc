// Where output goes, how it looks, and where the report goes.
// Tested by test/unit/cli/resolve/resolve_test.cc.
#include <fmt/format.h>

#include <algorithm>

#include "cli/base/parse_value.h"
#include "cli/base/usage_error.h"
#include "cli/options/take_value.h"
#include "cli/resolve/resolve_parts.h"
#include "cli/resolve/torchrun.h"

namespace dtrain::cli {
namespace {

Result<void> take_streams(const Given& given, FlagId id, int workers, launcher::StreamMap& field) {
  auto odd = given.raw.as_torchrun ? OddRanks::as_torchrun : OddRanks::refused;
  auto streams = parse_streams(given.options.text(id), workers, odd);
  if (!streams) return given.options.blame(id, streams.error());
  field = *streams;
  return {};
}

Result<void> files(const Given& given, Plan& plan) {
  plan.spec.collapse_double_dollar = given.raw.as_torchrun;
  if (auto done = take_streams(given, FlagId::tee, plan.spec.nproc_per_node, plan.spec.tee); !done) return done;
  if (auto done = take_streams(given, FlagId::redirects, plan.spec.nproc_per_node, plan.spec.redirects); !done)
    return done;
  plan.spec.log_dir = given.options.text(FlagId::log_dir);
  // With torchrun no log folder means no log: every stream is the launcher's own.
  if (given.raw.as_torchrun && plan.spec.log_dir == "/dev/null") plan.spec.tee = plan.spec.redirects = {};
  if (plan.spec.log_dir.empty() || plan.spec.log_dir == "/dev/null") return {};
  return check_folder(given.options, given.host, FlagId::log_dir);
}

Result<void> copies(const Given& given, Plan& plan) {
  plan.spec.duplicate_stdout_filters = parse_texts(given.options.text(FlagId::duplicate_stdout_filters));
  plan.spec.duplicate_stderr_filters = parse_texts(given.options.text(FlagId::duplicate_stderr_filters));
  const bool asked = !plan.spec.duplicate_stdout_filters.empty() || !plan.spec.duplicate_stderr_filters.empty();
  if (asked && !plan.spec.tee.any())
    plan.notes.push_back("no effect: --duplicate-*-filters look at tee'd streams only, and nothing is tee'd (--tee)");
  return {};
}

Result<void> take_ranks(const Given& given, FlagId id, int highest, std::optional<launcher::RankSet>& field) {
  if (given.options.text(id).empty()) return {};
  auto ranks = parse_ranks(given.options.text(id), highest);
  if (!ranks) return given.options.blame(id, ranks.error());
  field = *ranks;
  return {};
}

// The highest rank that there can be. On several nodes the others may have more workers than this one.
int highest_rank(const Plan& plan) { return plan.spec.nodes.several() ? kMostRank : plan.spec.nproc_per_node - 1; }

// As setlocale() chooses: the first that is set counts.
bool speaks_utf8(const Host& host) {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string locale = host.variable(name);
    if (locale.empty()) continue;
    for (const char* charset : {"UTF-8", "UTF8", "utf-8", "utf8"})
      if (locale.find(charset) != std::string::npos) return true;
    return false;
  }
  return false;
}

Result<void> console(const Given& given, Plan& plan) {
  launcher::ConsoleSettings& console = plan.spec.console;
  console.raw = given.raw.as_torchrun;
  const std::string& prefix = given.options.text(FlagId::prefix_template);
  if (!prefix.empty())
    plan.spec.prefix_template = prefix;
  else if (given.raw.as_torchrun)
    plan.spec.prefix_template = kTorchrunPrefix;
  else if (plan.spec.replicas.groups > 0)
    plan.spec.prefix_template = "[g${replica_group}:${rank}] ";
  console.utf8 = speaks_utf8(given.host);
  if (auto done = take_switch(given.options, FlagId::timestamps, console.timestamps); !done) return done;
  if (auto done = take_switch(given.options, FlagId::fold, console.fold); !done) return done;
  if (auto done = take_ranks(given, FlagId::ranks, highest_rank(plan), console.ranks); !done) return done;
  // torchrun takes local ranks that do not exist, and shows nobody then.
  const int highest_local = given.raw.as_torchrun ? kMostRank : plan.spec.nproc_per_node - 1;
  return take_ranks(given, FlagId::local_ranks_filter, highest_local, console.local_ranks);
}

Result<void> colour(const Given& given, Plan& plan) {
  using launcher::Color;
  auto done = take_choice(given.options, FlagId::color, plan.spec.color,
                          {{"auto", Color::automatic}, {"always", Color::always}, {"never", Color::never}});
  if (!done) return done;
  bool plain = !given.host.variable("NO_COLOR").empty() || given.host.variable("TERM") == "dumb";
  if (plan.spec.color == Color::automatic && plain) plan.spec.color = Color::never;
  if (done = take_switch(given.options, FlagId::verbose, plan.spec.verbose); !done || plan.spec.verbose) return done;
  return take_switch(given.options, FlagId::quiet, plan.spec.quiet);
}

Result<void> events(const Given& given, Plan& plan) {
  auto wanted = wants_event_log(given.options);
  if (!wanted) return wanted.error();
  plan.spec.event_log = *wanted;
  plan.spec.torchrun_report = given.raw.as_torchrun;
  const std::string& backend = given.options.text(FlagId::rdzv_backend);
  if (!backend.empty()) plan.spec.rdzv_backend = backend;
  return {};
}

Result<void> report(const Given& given, Plan& plan) {
  const std::string& path = given.options.text(FlagId::report);
  plan.spec.report_path = path;
  if (path.empty()) return {};
  FileFacts facts = given.host.probe(path);
  if (facts.kind == FileFacts::Kind::folder)
    return given.options.blame(FlagId::report, usage_error("is a folder, not a file"));
  if (facts.kind != FileFacts::Kind::missing)
    return facts.writable ? Result<void>() : given.options.blame(FlagId::report, usage_error("is not writable"));
  std::size_t slash = path.rfind('/');
  std::string folder = slash == std::string::npos ? "." : path.substr(0, std::max<std::size_t>(slash, 1));
  FileFacts parent = given.host.probe(folder);
  if (parent.kind == FileFacts::Kind::folder && parent.writable) return {};
  const char* why =
      parent.kind == FileFacts::Kind::missing ? "its folder does not exist" : "its folder is not writable";
  return given.options.blame(FlagId::report, usage_error(why));
}

}  // namespace

Result<void> resolve_output(const Given& given, Plan& plan) {
  for (auto step : {files, copies, console, colour, events, report})
    if (auto done = step(given, plan); !done) return done;
  return {};
}

}  // namespace dtrain::cli
