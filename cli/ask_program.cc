// Starts the program in a process group of its own and reads its answer.
#include "cli/ask_program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "rendezvous/base/unique_fd.h"

namespace dtrain::cli {
namespace {

using std::chrono::steady_clock;
constexpr std::size_t kLongest = 64 * 1024;

// -1 with errno in `error`, if it cannot be started.
pid_t start(const std::vector<std::string>& words, int output, int& error) {
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t pid = -1;
  error = posix_spawn(&pid, argv[0], &files, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return error == 0 ? pid : -1;
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

// Until end-of-file; false if that does not come in time.
bool read_all(int fd, steady_clock::time_point deadline, std::string& out) {
  char buffer[4096];
  for (;;) {
    pollfd ready = {fd, POLLIN, 0};
    if (poll(&ready, 1, left_ms(deadline)) != 1) return false;
    ssize_t size = read(fd, buffer, sizeof buffer);
    if (size <= 0) return true;
    if (out.size() < kLongest) out.append(buffer, static_cast<std::size_t>(size));
  }
}

}  // namespace

Result<std::string> ask_program(const std::vector<std::string>& argv, std::chrono::milliseconds patience) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return system_error("pipe", errno);
  UniqueFd read_end(ends[0]), write_end(ends[1]);
  int error = 0;
  pid_t child = start(argv, write_end.get(), error);
  if (child < 0) return system_error(argv[0], error);
  write_end.reset();
  std::string answer;
  auto deadline = steady_clock::now() + patience;
  bool ended = read_all(read_end.get(), deadline, answer) && ends_in_time(child, deadline);
  if (!ended) kill(-child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  if (!ended)
    return Error{ErrorKind::system, fmt::format("{}: no answer within {} s", argv[0], patience.count() / 1000)};
  if (status != 0) return Error{ErrorKind::system, fmt::format("{}: does not work", argv[0])};
  return answer;
}

}  // namespace dtrain::cli
