#include "launcher/submit/round_server.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string>
#include <utility>

#include "launcher/job/exit_codes.h"
#include "launcher/terminal/unwaiting_line.h"
#include "rendezvous/net/listen.h"
#include "rendezvous/server/job_server.h"

namespace dtrain::launcher {
namespace {

// It holds nothing of the user's open but stderr.
UniqueFd keep_alone(UniqueFd listener) {
  constexpr int kKept = STDERR_FILENO + 1;
  const int empty = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (empty < 0 || ::dup2(empty, STDIN_FILENO) < 0 || ::dup2(empty, STDOUT_FILENO) < 0) ::_exit(kExitOwnFailure);
  if (listener.get() != kKept && ::dup3(listener.get(), kKept, O_CLOEXEC) < 0) ::_exit(kExitOwnFailure);
  (void)listener.release();
  ::syscall(SYS_close_range, kKept + 1, ~0U, 0);
  return UniqueFd(kKept);
}

[[noreturn]] void serve(const LinkCredential& credential, UniqueFd listener, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(kExitOwnFailure);
  ::prctl(PR_SET_NAME, "dtrain-rounds");
  ::setsid();  // the keys of the terminal are for the submitter
  // Whoever ends all processes of a group means the job: the submitter ends it, and this process with it.
  for (const int signal : {SIGHUP, SIGINT, SIGTERM}) ::signal(signal, SIG_IGN);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  try {
    boost::asio::io_context io{1};
    const JobServer server(
        io, keep_alone(std::move(listener)),
        {.credential = credential, .limits = {.jobs = 1, .each_once = true}, .log = say_unwaiting, .news = [](auto&) {
         }});
    io.run();
  } catch (const std::exception& e) {
    say_unwaiting(std::string("the process that hosts the job cannot go on: ") + e.what());
  }
  ::_exit(kExitOwnFailure);
}

}  // namespace

Result<std::unique_ptr<RoundServer>> RoundServer::start(const LinkCredential& credential, std::uint16_t port) {
  auto listener = listen_at("::", port);
  if (!listener) return listener.error();
  const auto bound = port_of_socket(listener->get());
  if (!bound) return bound.error();
  const pid_t parent = ::getpid(), pid = ::fork();
  if (pid < 0) return system_error("cannot fork the process that hosts the job", errno);
  if (pid == 0) serve(credential, std::move(*listener), parent);
  UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  return std::unique_ptr<RoundServer>(new RoundServer(pid, std::move(pidfd), *bound));
}

RoundServer::~RoundServer() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void RoundServer::watch(boost::asio::io_context& io, std::function<void()> ended) {
  watched_ = std::make_unique<boost::asio::posix::stream_descriptor>(io, pidfd_.release());
  watched_->async_wait(boost::asio::posix::stream_descriptor::wait_read,
                       [ended = std::move(ended)](const boost::system::error_code& error) {
                         if (!error) ended();
                       });
}

}  // namespace dtrain::launcher
