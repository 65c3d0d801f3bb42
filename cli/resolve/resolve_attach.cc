// --attach: the terminal for one worker.
#include <fmt/format.h>

#include "cli/base/parse_value.h"
#include "cli/base/usage_error.h"
#include "cli/resolve/resolve_parts.h"

namespace dtrain::cli {
namespace {

using launcher::StreamMap;
using launcher::Streams;
using launcher::TerminalUse;

Result<void> check_terminal(TerminalUse use) {
  switch (use) {
    case TerminalUse::foreground:
      return {};
    case TerminalUse::none:
      return usage_error(
          "--attach needs a terminal, and standard input is not one: run dtrain from a terminal, without < or | before "
          "it");
    case TerminalUse::foreign:
      return usage_error(
          "--attach: the terminal on standard input is another session's; run dtrain from a shell in it");
    case TerminalUse::background:
      return usage_error("--attach: dtrain is in the background, and another job has the terminal; start it without &");
  }
  return {};
}

StreamMap without(const StreamMap& map, int local_rank, int workers) {
  StreamMap others;
  for (int rank = 0; rank < workers; ++rank)
    if (rank != local_rank && map.of(rank) != Streams::none) others.by_local_rank[rank] = map.of(rank);
  return others;
}

}  // namespace

Result<void> resolve_attach(const Given& given, Plan& plan) {
  if (!given.options.given(FlagId::attach)) return {};
  launcher::JobSpec& spec = plan.spec;
  int workers = spec.nproc_per_node;
  auto rank = parse_number(given.options.text(FlagId::attach), 0, workers - 1);
  if (!rank)
    return given.options.blame(FlagId::attach,
                               usage_error(fmt::format("expected a local rank from 0 to {}", workers - 1)));
  if (given.options.given(FlagId::stdin_mode))
    return usage_error("--attach gives standard input to one worker: leave out --stdin");
  auto dry_run = given.options.on(FlagId::dry_run);
  if (!dry_run) return dry_run.error();
  if (!*dry_run)
    if (auto fine = check_terminal(given.host.stdin_use); !fine) return fine;

  spec.attach = *rank;
  spec.stdin_mode = {launcher::StdinMode::Kind::rank, *rank};
  bool chosen = given.options.given(FlagId::tee) || given.options.given(FlagId::redirects);
  if (!chosen) spec.redirects.everywhere = Streams::all;
  spec.redirects = without(spec.redirects, *rank, workers);
  spec.tee = without(spec.tee, *rank, workers);
  std::string others = workers == 1 ? "" : chosen ? "" : "; the others write to log files";
  plan.notes.push_back(fmt::format("rank {} has the terminal, with Ctrl-C and Ctrl-Z{}", *rank, others));
  return {};
}

}  // namespace dtrain::cli
