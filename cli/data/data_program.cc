// Tested by test/process/data/cache_test.py.
#include "cli/data/data_program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
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
constexpr std::string_view kQuestionBegins = R"({"asks")";  // how one of dtrain-data's begins
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

int exit_code_of_status(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return status;
}

// What the nodes are asked, in a child, one question at a time. Each question has an answer, which goes to `socket` as
// dtrain-data reads it.
class NodesAsked {
 public:
  NodesAsked(const AskNodes& ask, const sigset_t& mask, int socket) : ask_(ask), mask_(mask), socket_(socket) {}
  ~NodesAsked() {
    signal(SIGTERM);
    if (child_ > 0) wait_for(child_);
  }
  NodesAsked(const NodesAsked&) = delete;
  NodesAsked& operator=(const NodesAsked&) = delete;

  // Readable once the child has ended. -1: nothing is asked.
  int end() const { return end_.get(); }
  void signal(int number) {
    was_told_to_end_ = true;
    if (child_ > 0) ::kill(child_, number);
  }
  // A build that was given up has left its question: its answer comes first.
  void begin(std::string folder) {
    waiting_ = std::move(folder);
    if (child_ > 0) return signal(SIGTERM);
    folder_ = std::exchange(waiting_, {});
    was_told_to_end_ = false;
    const pid_t parent = ::getpid();
    std::fflush(nullptr);
    child_ = ::fork();
    if (child_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGTERM);
      ::pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
      const int code = ::getppid() == parent ? ask_(folder_) : kNoExec;
      std::fflush(nullptr);
      ::_exit(code);
    }
    if (child_ < 0) return answer(fail(system_error("the other nodes cannot be asked: fork", errno)));
    end_ = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, child_, 0)));
    if (end_) return;
    const Error why = system_error("the other nodes cannot be asked: pidfd_open", errno);
    signal(SIGTERM);
    wait_for(std::exchange(child_, 0));
    answer(fail(why));
  }
  // Call once the child has ended.
  void conclude() {
    const int status = wait_for(std::exchange(child_, 0));
    end_.reset();
    if (WIFSIGNALED(status) && !was_told_to_end_)
      fail(Error{ErrorKind::system,
                 fmt::format("the process that asks the other nodes was killed by signal {}", WTERMSIG(status))});
    answer(exit_code_of_status(status));
    if (!waiting_.empty()) begin(std::exchange(waiting_, {}));
  }

 private:
  // A few bytes, which a socket takes at once. Its reader may have gone.
  void answer(int code) const {
    const std::string line = nlohmann::json{{"asks", folder_}, {"code", code}}.dump() + "\n";
    static_cast<void>(::send(socket_, line.data(), line.size(), MSG_NOSIGNAL));
  }

  const AskNodes& ask_;
  const sigset_t& mask_;
  int socket_;
  pid_t child_ = 0;
  bool was_told_to_end_ = false;
  UniqueFd end_{};
  std::string folder_{}, waiting_{};
};

// The folder of a question, which is taken out of the text. Nothing: there is none, or not all of it.
std::optional<std::string> take_question(std::string& text) {
  const std::size_t end = text.find('\n');
  if (!text.starts_with(kQuestionBegins) || end == text.npos) return std::nullopt;
  const auto json = nlohmann::json::parse(text.substr(0, end), nullptr, /*allow_exceptions=*/false);
  text.erase(0, end + 1);
  if (!json.is_object() || !json["asks"].is_string()) return std::nullopt;
  return json["asks"].get<std::string>();
}

// Until the child closes its output, with all signals passed on and all questions answered.
void attend_to(int socket, int signals, pid_t child, NodesAsked& nodes, DataAnswer& answer) {
  std::array<char, 4096> chunk{};
  for (;;) {
    std::array<pollfd, 3> ready = {pollfd{socket, POLLIN, 0}, pollfd{signals, POLLIN, 0},
                                   pollfd{nodes.end(), POLLIN, 0}};
    if (::poll(ready.data(), ready.size(), -1) < 0 && errno != EINTR) return;
    signalfd_siginfo came = {};
    if ((ready[1].revents & POLLIN) != 0 && ::read(signals, &came, sizeof came) == sizeof came) {
      answer.signal = static_cast<int>(came.ssi_signo);
      ::kill(child, answer.signal);
      nodes.signal(answer.signal);
    }
    if ((ready[2].revents & POLLIN) != 0) nodes.conclude();
    if (ready[0].revents == 0) continue;
    const ssize_t got = ::read(socket, chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return;
    if (answer.text.size() < kMostAnswer) answer.text.append(chunk.data(), static_cast<std::size_t>(got));
    while (auto folder = take_question(answer.text)) nodes.begin(std::move(*folder));
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

Result<DataAnswer> ask_dtrain_data(const std::string& command, const std::string& request, const AskNodes& ask) {
  const auto file = dtrain_data_file();
  if (!file) return file.error();
  const auto input = request_file(request);
  if (!input) return input.error();
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) return system_error("socketpair", errno);
  const UniqueFd own_end(ends[0]);
  UniqueFd its_end(ends[1]);
  const HeldSignals held;
  const UniqueFd signals(::signalfd(-1, &held.held, SFD_CLOEXEC));
  if (!signals) return system_error("signalfd", errno);
  const pid_t parent = ::getpid(), child = ::fork();
  if (child < 0) return system_error("fork", errno);
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    ::pthread_sigmask(SIG_SETMASK, &held.before, nullptr);
    if (::getppid() == parent && ::dup2(its_end.get(), STDOUT_FILENO) >= 0) execute(*file, command, input->get());
    ::_exit(kNoExec);
  }
  its_end.reset();
  DataAnswer answer;
  {
    NodesAsked nodes(ask, held.before, own_end.get());
    attend_to(own_end.get(), signals.get(), child, nodes, answer);
  }
  const int status = wait_for(child);
  if (WIFSIGNALED(status) && answer.signal == 0)
    return Error{ErrorKind::system, fmt::format("dtrain-data was killed by signal {}", WTERMSIG(status))};
  answer.code = exit_code_of_status(status);
  return answer;
}

}  // namespace dtrain::cli
