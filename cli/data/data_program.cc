// Tested by test/process/data/cache_test.py.
#include "cli/data/data_program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <string_view>
#include <utility>

#include "cli/base/fail.h"
#include "cli/base/own_file.h"
#include "launcher/base/inherited.h"
#include "rendezvous/base/printable.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain::cli {
namespace {

constexpr int kNoExec = 126;
constexpr std::size_t kMostAnswer = std::size_t{1} << 20;

Result<std::string> dtrain_data_file() {
  const auto self = own_file();
  if (!self) return self.error();
  std::string file = (self->parent_path() / "dtrain-data").string();
  if (::access(file.c_str(), X_OK) == 0) return file;
  return Error{
      ErrorKind::not_found,
      fmt::format("there is no dtrain-data in {}, which preprocesses data: dtrain's wheel has it, and so does a "
                  "build where pip has installed pyarrow, with its component `data` (docs/cache.md)",
                  printable(self->parent_path().string()))};
}

// The request as a file without a name.
Result<UniqueFd> request_file(std::string_view request) {
  UniqueFd file(::memfd_create("dtrain-request", MFD_CLOEXEC));
  if (!file) return system_error("memfd_create", errno);
  for (off_t at = 0; !request.empty();) {
    const ssize_t written = ::pwrite(file.get(), request.data(), request.size(), at);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return system_error("memfd", errno);
    at += written;
    request.remove_prefix(static_cast<std::size_t>(written));
  }
  return file;
}

void execute(const std::string& file, const std::string& command, int request) {
  std::string name = "dtrain-data", word = command;
  std::array<char*, 3> argv = {name.data(), word.data(), nullptr};
  if (::dup2(request, STDIN_FILENO) >= 0) ::execv(file.c_str(), argv.data());
}

struct HeldSignals {
  sigset_t held{};
  sigset_t before{};
  HeldSignals() {
    ::sigemptyset(&held);
    // What nohup or a shell's `&` ignores stays ignored: blocked, it would be seen here.
    for (const int each : launcher::not_ignored({SIGINT, SIGTERM, SIGHUP})) ::sigaddset(&held, each);
    ::pthread_sigmask(SIG_BLOCK, &held, &before);
  }
  ~HeldSignals() { ::pthread_sigmask(SIG_SETMASK, &before, nullptr); }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;
};

// Until the child closes its output, with all signals passed on.
void pass_signals_on(int from, int signals, pid_t child, DataAnswer& answer) {
  std::array<pollfd, 2> ready = {pollfd{from, POLLIN, 0}, pollfd{signals, POLLIN, 0}};
  std::array<char, 4096> chunk{};
  for (;;) {
    if (::poll(ready.data(), ready.size(), -1) < 0 && errno != EINTR) return;
    signalfd_siginfo came = {};
    if ((ready[1].revents & POLLIN) != 0 && ::read(signals, &came, sizeof came) == sizeof came) {
      answer.signal = static_cast<int>(came.ssi_signo);
      ::kill(child, answer.signal);
    }
    if (ready[0].revents == 0) continue;
    const ssize_t got = ::read(from, chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return;
    if (answer.text.size() < kMostAnswer) answer.text.append(chunk.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace

int become_dtrain_data(const std::string& command, const std::string& request) {
  const auto file = dtrain_data_file();
  if (!file) return fail(file.error());
  const auto input = request_file(request);
  if (!input) return fail(input.error());
  execute(*file, command, input->get());
  return fail(system_error(printable(*file), errno));
}

Result<DataAnswer> ask_dtrain_data(const std::string& command, const std::string& request) {
  const auto file = dtrain_data_file();
  if (!file) return file.error();
  const auto input = request_file(request);
  if (!input) return input.error();
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return system_error("pipe", errno);
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  const HeldSignals held;
  const UniqueFd signals(::signalfd(-1, &held.held, SFD_CLOEXEC));
  if (!signals) return system_error("signalfd", errno);
  const pid_t parent = ::getpid(), child = ::fork();
  if (child < 0) return system_error("fork", errno);
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    ::pthread_sigmask(SIG_SETMASK, &held.before, nullptr);
    if (::getppid() == parent && ::dup2(write_end.get(), STDOUT_FILENO) >= 0) execute(*file, command, input->get());
    ::_exit(kNoExec);
  }
  write_end.reset();
  DataAnswer answer;
  pass_signals_on(read_end.get(), signals.get(), child, answer);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (WIFSIGNALED(status) && answer.signal == 0)
    return Error{ErrorKind::system, fmt::format("dtrain-data was killed by signal {}", WTERMSIG(status))};
  answer.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return answer;
}

}  // namespace dtrain::cli
