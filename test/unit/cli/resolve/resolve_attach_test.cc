// --attach: who has the terminal, and where the others write.
#include "cli/resolve/resolve.h"
#include "test/support/catch.h"
#include "test/unit/cli/resolve/plan_of_flags.h"
#include "test/unit/cli/test_host.h"

using namespace dtrain;
using namespace dtrain::cli;
using launcher::Streams;
using launcher::TerminalUse;
using Words = std::vector<std::string>;

namespace {

Result<Plan> resolved(const Words& flags, TerminalUse use = TerminalUse::foreground) {
  Host host = test_host();
  host.stdin_use = use;
  return plan_or_error(flags, host);
}

launcher::JobSpec spec(const Words& flags) {
  auto plan = resolved(flags);
  INFO((plan ? "" : plan.error().message));
  REQUIRE(plan.ok());
  return plan->spec;
}

std::string error(const Words& flags, TerminalUse use = TerminalUse::foreground) {
  auto plan = resolved(flags, use);
  return plan ? "<none>" : plan.error().message;
}

}  // namespace

TEST_CASE("an attached worker reads the terminal, the others write to files") {
  auto job = spec({"--nproc=3", "--attach=1"});
  CHECK(job.attach == 1);
  CHECK(job.stdin_mode.kind == launcher::StdinMode::Kind::rank);
  CHECK(job.stdin_mode.local_rank == 1);
  CHECK(job.redirects.of(0) == Streams::all);
  CHECK(job.redirects.of(1) == Streams::none);
  CHECK(job.redirects.of(2) == Streams::all);
  CHECK_FALSE(spec({"--attach=0"}).redirects.any());
  CHECK_FALSE(spec({}).attach.has_value());
}

TEST_CASE("where the others of an attached worker write can be chosen") {
  CHECK_FALSE(spec({"--nproc=2", "--attach=0", "--redirects=0"}).redirects.any());
  auto job = spec({"--nproc=2", "--attach=0", "--tee=3"});
  CHECK_FALSE(job.redirects.any());
  CHECK(job.tee.of(0) == Streams::none);
  CHECK(job.tee.of(1) == Streams::all);
}

TEST_CASE("attaching needs a terminal in the foreground, and a rank of this node") {
  CHECK(error({"--attach=0"}, TerminalUse::none).starts_with("--attach needs a terminal"));
  CHECK(error({"--attach=0"}, TerminalUse::foreign).find("another session's") != std::string::npos);
  CHECK(error({"--attach=0"}, TerminalUse::background).find("in the background") != std::string::npos);
  CHECK(error({"--attach=0", "--dry-run"}, TerminalUse::none) == "<none>");
  CHECK(error({"--nproc=2", "--attach=2"}) == "--attach '2': expected a local rank from 0 to 1");
  CHECK(error({"--attach=x"}) == "--attach 'x': expected a local rank from 0 to 0");
  CHECK(error({"--attach=0", "--stdin=none"}) == "--attach gives standard input to one worker: leave out --stdin");
  CHECK(error({}, TerminalUse::none) == "<none>");
}
