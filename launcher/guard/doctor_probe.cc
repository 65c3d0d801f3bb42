#include "launcher/guard/doctor_probe.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>

#include "launcher/guard/guard_protocol.h"
#include "launcher/guard/start_guard.h"
#include "launcher/process/containment.h"
#include "launcher/process/proc_info.h"

namespace dtrain::launcher {

namespace {

using std::chrono::steady_clock;
constexpr int kPatienceMs = 3000;

// sh is on every machine. This process leaves the session, ignores what can be ignored, says that it runs, and stays.
const std::vector<std::string> kEscapee = {
    "/bin/sh", "-c", "trap '' TERM HUP INT; (setsid sh -c \"trap '' TERM HUP INT; echo x; exec sleep 60\" &) ; exit 0"};

struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;
};

Pipe make_pipe() {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return {};
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

bool readable_in_time(int fd) {
  pollfd p{fd, POLLIN, 0};
  return ::poll(&p, 1, kPatienceMs) == 1;
}

// The escapee holds the write end of the pipe as its stdout, so end-of-file means that it is gone.
ContainmentProof let_loose(Containment level, const GuardHandle& guard) {
  Pipe out = make_pipe();
  UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  auto payload = write_exec_payload(kEscapee, {"PATH=/usr/local/bin:/usr/bin:/bin"});
  if (!out.read_end || !null || !payload) return {level, false, "no descriptors left"};
  const int fds[] = {payload->get(), null.get(), out.write_end.get(), null.get()};
  send_guard_message(guard.socket.get(), {GuardOp::begin_round, -1, 1});
  send_guard_message(guard.socket.get(), {GuardOp::spawn, 0}, fds, 4);
  out.write_end.reset();
  char byte;
  if (!readable_in_time(out.read_end.get()) || ::read(out.read_end.get(), &byte, 1) != 1) {
    return {level, false, "the test process could not be started"};
  }
  const auto start = steady_clock::now();
  send_guard_message(guard.socket.get(), {GuardOp::kill});
  // After the kill only a newline and end-of-file can come.
  while (readable_in_time(out.read_end.get())) {
    if (::read(out.read_end.get(), &byte, 1) > 0) continue;
    const std::chrono::duration<double, std::milli> took = steady_clock::now() - start;
    return {level, true, fmt::format("a process in a session of its own was gone after {:.1f} ms", took.count())};
  }
  return {level, false, "a process in a session of its own survived"};
}

ContainmentProof prove(Containment level) {
  auto chosen = choose_containment(level, "doctor");
  if (!chosen) return {level, false, chosen.error().message};
  rlimit nofile{};
  ::getrlimit(RLIMIT_NOFILE, &nofile);
  auto guard = start_guard({level, chosen->cgroup.folder(), chosen->cgroup.procs_fd(), nofile, nullptr, {}});
  ContainmentProof proof{level, false, ""};
  if (guard) {
    proof = let_loose(level, *guard);
    guard->socket.reset();  // the guard kills what is left and ends
    if (!wait_for_exit(guard->pid, std::chrono::milliseconds(kPatienceMs))) {
      ::kill(guard->pid, SIGKILL);
      ::waitpid(guard->pid, nullptr, 0);
    }
  } else {
    proof.detail = guard.error().message;
  }
  chosen->cgroup.remove();
  return proof;
}

}  // namespace

std::vector<ContainmentProof> prove_containment() {
  return {prove(Containment::cgroup), prove(Containment::subreaper), prove(Containment::pidns)};
}

}  // namespace dtrain::launcher
