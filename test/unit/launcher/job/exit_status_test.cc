#include "launcher/job/exit_status.h"

#include <cerrno>
#include <csignal>

#include "test/support/catch.h"

namespace dtrain::launcher {

TEST_CASE("exit_code_of follows the table of docs/exit-codes.md") {
  CHECK(exit_code_of(ExitStatus::exited(0)) == 0);
  CHECK(exit_code_of(ExitStatus::exited(3)) == 3);
  CHECK(exit_code_of(ExitStatus::exited(255)) == 255);
  CHECK(exit_code_of(ExitStatus::signaled(SIGKILL, false)) == 137);
  CHECK(exit_code_of(ExitStatus::signaled(SIGSEGV, true)) == 139);
  CHECK(exit_code_of(ExitStatus::not_started(SpawnStep::exec, ENOENT)) == 127);
  CHECK(exit_code_of(ExitStatus::not_started(SpawnStep::exec, EACCES)) == 126);
  CHECK(exit_code_of(ExitStatus::not_started(SpawnStep::exec, ENOEXEC)) == 126);
  CHECK(exit_code_of(ExitStatus::not_started(SpawnStep::clone, EAGAIN)) == 125);
  CHECK(exit_code_of(ExitStatus::not_started(SpawnStep::working_directory, ENOENT)) == 125);
}

TEST_CASE("describe names the code, the signal or the failed step") {
  CHECK(describe(ExitStatus::exited(3)) == "exit code 3");
  CHECK(describe(ExitStatus::signaled(SIGSEGV, true)) == "signal 11 (SIGSEGV), core dumped");
  CHECK(describe(ExitStatus::signaled(SIGTERM, false)) == "signal 15 (SIGTERM)");
  CHECK(describe(ExitStatus::signaled(99, false)) == "signal 99");
  CHECK(describe(ExitStatus::not_started(SpawnStep::exec, ENOENT)) == "not started: exec: No such file or directory");
  CHECK(describe(ExitStatus::not_started(SpawnStep::death_signal, 99999)) ==
        "not started: death signal: Unknown error 99999");
}

TEST_CASE("signal_name covers real-time signals and numbers that are none") {
  CHECK(signal_name(SIGTERM) == "SIGTERM");
  CHECK(signal_name(SIGRTMIN + 3) == "SIGRTMIN+3");
  CHECK(signal_name(99) == "signal 99");
  CHECK(signal_name(-1) == "signal -1");
}

}  // namespace dtrain::launcher
