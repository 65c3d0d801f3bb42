// Starts the program in a process group of its own and reads its answer.
#include "cli/children/ask_program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "cli/children/read_until.h"
#include "launcher/process/spawn.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain::cli {
namespace {

using std::chrono::steady_clock;
constexpr std::size_t kLongestOutput = 64 * 1024;
constexpr int kNotStarted = 127;

// In the child. Its own process group lets all that it starts be killed with it, but keeps Ctrl-C away from it: so it
// ends when we do.
[[noreturn]] void become(char* const* argv, int output, AskedErrors errors, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kNotStarted);
  int null = open("/dev/null", O_RDWR);
  if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0 ||
      (errors == AskedErrors::hidden && dup2(null, STDERR_FILENO) < 0))
    _exit(kNotStarted);
  if (null > STDERR_FILENO) close(null);
  execv(argv[0], argv);
  _exit(kNotStarted);
}

// -1 with errno, if no process can be started.
pid_t start(const std::vector<std::string>& words, int output, AskedErrors errors) {
  const auto argv = launcher::c_strings(words);
  pid_t parent = getpid();
  pid_t child = fork();
  if (child == 0) become(argv.data(), output, errors, parent);
  if (child > 0) setpgid(child, child);  // whoever comes first
  return child;
}

int left_ms(steady_clock::time_point deadline) {
  auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - steady_clock::now()).count();
  return static_cast<int>(std::max<decltype(left)>(left, 0));
}

// A program may close its output and stay.
bool ends_in_time(pid_t child, steady_clock::time_point deadline) {
  UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, child, 0)));
  pollfd ended = {pidfd.get(), POLLIN, 0};
  return pidfd && poll(&ended, 1, left_ms(deadline)) == 1;
}

}  // namespace

Result<std::string> ask_program(const std::vector<std::string>& argv, std::chrono::milliseconds patience,
                                AskedErrors errors) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return system_error("pipe", errno);
  UniqueFd read_end(ends[0]), write_end(ends[1]);
  pid_t child = start(argv, write_end.get(), errors);
  if (child < 0) return system_error("fork", errno);
  write_end.reset();
  auto deadline = steady_clock::now() + patience;
  PipeText answer = read_until(read_end.get(), deadline, kLongestOutput);
  bool ended = answer.complete && ends_in_time(child, deadline);
  if (!ended) kill(-child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  if (!ended)
    return Error{ErrorKind::system, fmt::format("{}: no answer within {} s", argv[0], patience.count() / 1000)};
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNotStarted)
    return Error{ErrorKind::system, fmt::format("{}: cannot be started", argv[0])};
  if (status != 0) return Error{ErrorKind::system, fmt::format("{}: does not work", argv[0])};
  return std::move(answer.text);
}

}  // namespace dtrain::cli
