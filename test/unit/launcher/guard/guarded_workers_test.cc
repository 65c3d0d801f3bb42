#include "launcher/guard/guarded_workers.h"

#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <vector>

#include "launcher/process/sweep.h"
#include "test/support/catch.h"

namespace dtrain::launcher {
namespace {

using DeadWorkers = GuardedWorkers::DeadWorkers;

pid_t start_sleeper() {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  ::setpgid(0, 0);
  for (;;) ::pause();
}

// Workers that only a signal ends, as the guard has them: in its table, and their pidfds in its epoll.
struct Started {
  GuardedWorkers workers;
  UniqueFd events{::epoll_create1(EPOLL_CLOEXEC)};
  std::vector<pid_t> pids;

  explicit Started(int count) {
    for (int rank = 0; rank < count; ++rank) {
      pids.push_back(start_sleeper());
      ::setpgid(pids.back(), pids.back());
      UniqueFd pidfd(int(::syscall(SYS_pidfd_open, pids.back(), 0)));
      epoll_event event{};
      event.events = EPOLLIN;
      event.data.fd = pidfd.get();
      REQUIRE(::epoll_ctl(events.get(), EPOLL_CTL_ADD, pidfd.get(), &event) == 0);
      workers.add({rank, pids.back(), std::move(pidfd), false});
    }
  }
  ~Started() {
    workers.kill();
    for (const pid_t pid : pids) ::waitpid(pid, nullptr, 0);
  }
};

// Until the process is dead; it stays to be reaped.
void kill_and_wait(pid_t pid) {
  ::kill(pid, SIGKILL);
  siginfo_t info{};
  REQUIRE(::waitid(P_PID, id_t(pid), &info, WEXITED | WNOWAIT) == 0);
}

}  // namespace

TEST_CASE("workers are reaped in the order of their deaths, whatever their age") {
  Started started(3);
  const std::vector<int> order = {2, 0, 1};
  for (const int rank : order) kill_and_wait(started.pids[size_t(rank)]);
  started.workers.reap_orphans(DeadWorkers::wait_for_their_turn);  // takes none of them
  epoll_event events[8];
  const int n = ::epoll_wait(started.events.get(), events, 8, 10000);
  std::vector<int> reaped;
  for (int i = 0; i < n; ++i) {
    const auto ended = started.workers.reap(events[i].data.fd);
    REQUIRE(ended);
    CHECK(ended->pid == started.pids[size_t(ended->local_rank)]);
    CHECK(ended->code == CLD_KILLED);
    CHECK(ended->status == SIGKILL);
    reaped.push_back(ended->local_rank);
  }
  CHECK(reaped == order);
  CHECK(started.workers.empty());
}

TEST_CASE("a worker that lives is not reaped") {
  Started started(1);
  CHECK_FALSE(started.workers.reap(-1));
  CHECK(started.workers.pids() == started.pids);
}

TEST_CASE("an orphan is reaped, and a dead worker waits for its turn") {
  Started started(1);
  kill_and_wait(started.pids[0]);
  started.workers.reap_orphans(DeadWorkers::wait_for_their_turn);
  CHECK(started.workers.pids() == started.pids);
  started.workers.reap_orphans(DeadWorkers::are_reaped_too);
  CHECK(started.workers.empty());
  const pid_t orphan = start_sleeper();
  kill_and_wait(orphan);
  started.workers.reap_orphans(DeadWorkers::wait_for_their_turn);
  CHECK(::waitpid(orphan, nullptr, WNOHANG) == -1);
}

TEST_CASE("where orphans die faster than they are reaped, the guard comes to its other work") {
  GuardedWorkers workers;
  for (int n = 0; n < kReapedInARow + 1; ++n) kill_and_wait(start_sleeper());
  CHECK(workers.reap_orphans(DeadWorkers::wait_for_their_turn));
  CHECK_FALSE(no_children());
  CHECK_FALSE(workers.reap_orphans(DeadWorkers::wait_for_their_turn));
  CHECK(no_children());
}

}  // namespace dtrain::launcher
