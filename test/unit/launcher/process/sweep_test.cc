// What sweep.h does to processes that are real; test/process/launcher/contain_test.py has whole trees of them.
#include "launcher/process/sweep.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <optional>
#include <thread>

#include "test/support/catch.h"

using namespace dtrain::launcher;

namespace {

std::optional<Descendant> seen_below(pid_t pid) {
  for (const Descendant& d : look_below(::getpid()))
    if (d.pid == pid) return d;
  return {};
}

}  // namespace

TEST_CASE("sweep: a number that another process has by now is not signalled") {
  const pid_t child = ::fork();
  if (child == 0) {
    ::setsid();
    for (;;) ::pause();
  }
  REQUIRE(child > 0);
  std::optional<Descendant> found;
  while (!found || found->session != child) found = seen_below(child);  // until the child has its session
  CHECK(found->parent == ::getpid());
  CHECK(found->group == child);

  Descendant earlier = *found;
  ++earlier.start;
  CHECK_FALSE(signal_descendant(earlier, SIGKILL));
  CHECK(seen_below(child).has_value());

  CHECK(signal_descendant(*found, SIGKILL));
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WTERMSIG(status) == SIGKILL);
  CHECK_FALSE(signal_descendant(*found, SIGKILL));  // reaped
  CHECK_FALSE(seen_below(child).has_value());
}

TEST_CASE("sweep: again and again, but not for each few of the dead while there are more of them") {
  SweepPace pace;
  CHECK(pace.due(true));
  CHECK(pace.due(false));
  CHECK_FALSE(pace.due(true));
}

TEST_CASE("sweep: a process is stopped when each of its threads is") {
  std::array<int, 2> ready{};
  REQUIRE(::pipe(ready.data()) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    std::thread([] { ::pause(); }).detach();
    [[maybe_unused]] const auto n = ::write(ready[1], "", 1);
    for (;;) ::pause();
  }
  REQUIRE(child > 0);
  char byte = 1;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  CHECK_FALSE(all_stopped(::getpid()));

  ::kill(child, SIGSTOP);
  int status = 0;
  REQUIRE(::waitpid(child, &status, WUNTRACED) == child);  // the kernel says it when all threads have stopped
  CHECK(all_stopped(::getpid()));

  ::kill(child, SIGCONT);
  REQUIRE(::waitpid(child, &status, WCONTINUED) == child);
  CHECK_FALSE(all_stopped(::getpid()));

  ::kill(child, SIGKILL);
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(all_stopped(::getpid()));
  ::close(ready[0]);
  ::close(ready[1]);
}
