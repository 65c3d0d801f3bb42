#include "launcher/ship/kept_folder.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <filesystem>
#include <string_view>

#include "launcher/base/folders.h"
#include "launcher/base/inherited.h"
#include "launcher/base/private_folder.h"

namespace dtrain::launcher {
namespace {

constexpr int kKeeperMs = 30'000;  // with the keeper: a large folder takes its time
constexpr char kMade = '+', kFailed = '-';
constexpr int kKeepersEnd = 3;  // where the keeper has its end of the socket

// Nothing of whoever has started dtrain: a pipe that it holds open, or a signal that is for the job.
void leave_everything(UniqueFd end) {
  UniqueFd none = empty_input();
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(none.get(), fd);
  none.reset();  // it may be where the end is going to be
  if (end.get() != kKeepersEnd) ::dup3(end.get(), kKeepersEnd, O_CLOEXEC);
  (void)end.release();
  ::syscall(SYS_close_range, unsigned{kKeepersEnd} + 1, ~0U, 0U);
  sigset_t mask;
  ::sigfillset(&mask);
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
  ::prctl(PR_SET_NAME, "dt-keeper");
}

[[noreturn]] void keep(UniqueFd end, const std::string& kind) {
  leave_everything(std::move(end));
  auto folder = PrivateFolder::make(kind);
  const std::string word = folder ? kMade + folder->path() : kFailed + folder.error().message;
  // It may be on a file system that somebody wants to unmount.
  [[maybe_unused]] const int done = ::chdir("/");
  const bool heard = ::send(kKeepersEnd, word.data(), word.size(), MSG_NOSIGNAL) > 0;
  char byte = 0;
  while (folder && heard && (::read(kKeepersEnd, &byte, 1) > 0 || errno == EINTR)) errno = 0;
  if (folder) folder->remove();
  ::_exit(0);
}

// In a session of its own, and no child of this process.
bool start_keeper(const std::string& kind, UniqueFd ours, UniqueFd theirs, UniqueFd& tie) {
  const pid_t child = ::fork();
  if (child < 0) return false;
  if (child == 0) {
    ours.reset();
    ::setsid();
    const pid_t keeper = ::fork();
    if (keeper == 0) keep(std::move(theirs), kind);
    ::_exit(keeper < 0 ? 1 : 0);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  tie = std::move(ours);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// What the keeper says; empty: it has ended, or is late.
std::string word_of_keeper(int tie) {
  char word[PATH_MAX + 1];
  pollfd ready{tie, POLLIN, 0};
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(kKeeperMs);
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
    const int polled = left <= 0 ? 0 : ::poll(&ready, 1, static_cast<int>(left));
    if (polled < 0 && errno == EINTR) continue;
    const ssize_t got = polled <= 0 ? 0 : ::read(tie, word, sizeof word);
    return got <= 0 ? std::string() : std::string(word, static_cast<std::size_t>(got));
  }
}

}  // namespace

Result<KeptFolder> KeptFolder::make(const std::string& kind) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return system_error("socketpair", errno);
  UniqueFd ours(ends[0]), theirs(ends[1]), tie;
  if (!start_keeper(kind, std::move(ours), std::move(theirs), tie)) return system_error("fork", errno);
  const std::string word = word_of_keeper(tie.get());
  if (word.empty() || word[0] != kMade)
    return Error{ErrorKind::system, word.empty() ? "the keeper of the job's folder has ended" : word.substr(1)};
  std::string path = word.substr(1);
  UniqueFd held = hold_folder(path);
  if (!held) return system_error(path, errno);
  return KeptFolder(std::move(path), std::move(held), std::move(tie));
}

// If the keeper has been killed, this process removes it.
KeptFolder::~KeptFolder() {
  if (!tie_) return;
  ::shutdown(tie_.get(), SHUT_WR);
  (void)word_of_keeper(tie_.get());
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace dtrain::launcher
