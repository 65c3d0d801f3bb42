#include "launcher/hosts/host_command.h"

#include <fcntl.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <utility>

#include "launcher/base/inherited.h"
#include "launcher/process/spawn.h"

namespace dtrain::launcher {

HostCommand::HostCommand(boost::asio::io_context& io, std::function<void(int status)> ended)
    : ended_(std::move(ended)), input_(io, {}), pidfd_(io) {}

Result<void> HostCommand::start(const std::vector<std::string>& words, StreamEnds output, rlimit descriptors,
                                bool dies_with_us) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return system_error("pipe", errno);
  UniqueFd theirs(ends[0]), ours(ends[1]);
  const auto environment = own_environment();
  auto argv = c_strings(words), envp = c_strings(environment);
  SpawnRequest request;
  request.argv = argv.data();
  request.envp = envp.data();
  request.stdin_fd = theirs.get();
  request.stdout_fd = output.out.get();
  request.stderr_fd = output.err.get();
  request.dies_with_caller = dies_with_us;
  request.nofile = descriptors;
  SpawnResult spawned = spawn(request);
  if (spawned.pid < 0) return system_error(words[0] + ": cannot be started", spawned.error);
  pid_ = spawned.pid;
  input_.open(std::move(ours));
  pidfd_.assign(spawned.pidfd.release());
  pidfd_.async_wait(boost::asio::posix::stream_descriptor::wait_read, [this](const boost::system::error_code& error) {
    if (!error) reap();
  });
  return {};
}

void HostCommand::kill() {
  if (pid_ > 0) ::kill(-pid_, SIGKILL);
}

void HostCommand::reap() {
  int status = 0;
  if (::waitpid(std::exchange(pid_, -1), &status, 0) < 0) status = 0;
  close_input();
  pidfd_.close();
  ended_(WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status));
}

}  // namespace dtrain::launcher
