#include "launcher/guard/start_guard.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "launcher/guard/guard_protocol.h"
#include "launcher/process/pid_namespace.h"

namespace dtrain::launcher {

namespace {

// The guard has set its namespace up.
bool wait_ready(int socket) {
  constexpr int kStartMs = 5000;
  pollfd fd{socket, POLLIN, 0};
  ReceivedGuardMessage received;
  return ::poll(&fd, 1, kStartMs) == 1 && receive_guard_message(socket, received) == Receive::message;
}

}  // namespace

Result<GuardHandle> start_guard(const GuardSettings& settings) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
    return system_error("cannot make a socket pair for the guard", errno);
  }
  UniqueFd ours(ends[0]), theirs(ends[1]);
  const bool pidns = settings.level == Containment::pidns;
  PidNamespace space;
  const pid_t pid = pidns ? space.fork() : ::fork();
  if (pid < 0) return system_error(pidns ? "cannot make a PID namespace" : "cannot fork the guard", errno);
  if (pid == 0) {
    ours.reset();
    // The guard's end blocks: the agent always reads, and the guard has nothing better to do than to be heard.
    ::fcntl(theirs.get(), F_SETFL, 0);
    if (pidns) {
      if (!space.enter()) ::_exit(1);
      if (send_guard_message(theirs.get(), {GuardOp::ready}) != 0) ::_exit(1);
    }
    guard_main(settings, std::move(theirs));
  }
  theirs.reset();
  if (pidns && !wait_ready(ours.get())) {
    return Error{ErrorKind::system, "cannot set up a PID namespace (mounting its /proc is not allowed here)"};
  }
  return GuardHandle{pid, std::move(ours)};
}

}  // namespace dtrain::launcher
