// Tested by test/unit/data/entry/build_entry_test.cc.
#include "data/entry/build_child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

#include "data/cache/cache_error.h"
#include "data/cache/lease_plan.h"
#include "data/cache/posix_files.h"

namespace dtrain::data {
namespace {

constexpr std::size_t kMostWords = 4096;  // what a pipe takes at once
constexpr std::chrono::seconds kOrphanPatience{30};
constexpr std::chrono::milliseconds kOrphanLook{1000};

// The child's last words: its exit code says what they are.
[[noreturn]] void leave_with(int words_to, int code, std::string text) {
  text.resize(std::min(text.size(), kMostWords));
  const ssize_t written = ::write(words_to, text.data(), text.size());
  ::_exit(written == static_cast<ssize_t>(text.size()) ? code : kSystemCode);
}

[[noreturn]] void be_child(const std::function<void()>& work, const StopSignals& signals, int words_to, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(kSystemCode);
  ::signal(SIGINT, SIG_IGN);  // of a terminal: the parent has it too, and decides
  signals.restore();
  try {
    work();
  } catch (const CacheError& error) {
    leave_with(words_to, error.code, error.what());
  } catch (const std::bad_alloc&) {
    leave_with(words_to, kSystemCode, "there is not enough memory; see processor.memory_limit_bytes");
  } catch (const std::system_error& error) {
    leave_with(words_to, kSystemCode, error.what());
  } catch (const std::exception& error) {  // of the processor: about its recipe or its input
    leave_with(words_to, kUsageCode, error.what());
  } catch (...) {  // it must not go on as a second parent
    leave_with(words_to, kSystemCode, "the processor has failed, and does not say why");
  }
  ::_exit(0);
}

std::string words_of_child(int from) {
  std::string text(kMostWords, '\0');
  const ssize_t got = ::read(from, text.data(), text.size());
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return text;
}

// Killed, if nobody has waited for it. What it has started (a job that runs a script) is asked to end when it dies, and
// is then a child of this process: who clears the folder away must not do it while somebody writes there.
class Child {
 public:
  Child(pid_t pid, const StopSignals& signals) : pid_(pid), signals_(signals) {}
  ~Child() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    const auto until = std::chrono::steady_clock::now() + kOrphanPatience;
    while (has_orphans() && std::chrono::steady_clock::now() < until) signals_.wait_for_child(kOrphanLook);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Its status, once it has ended.
  bool has_ended(int& status) {
    if (::waitpid(pid_, &status, WNOHANG) != pid_) return false;
    pid_ = 0;
    return true;
  }

 private:
  static bool has_orphans() {
    pid_t ended = 0;
    do ended = ::waitpid(-1, nullptr, WNOHANG);
    while (ended > 0);
    return ended == 0;
  }

  pid_t pid_;
  const StopSignals& signals_;
};

void judge_end(int status, int words_from) {
  if (WIFSIGNALED(status)) {
    const char* why = WTERMSIG(status) == SIGKILL ? "; perhaps the kernel had no more memory for it" : "";
    throw CacheError(kSystemCode, fmt::format("the process that builds the entry was killed by signal {} ({}){}",
                                              WTERMSIG(status), ::strsignal(WTERMSIG(status)), why));
  }
  if (WEXITSTATUS(status) != 0) throw CacheError(WEXITSTATUS(status), words_of_child(words_from));
}

}  // namespace

void run_in_child(const std::function<void()>& work, const std::function<void()>& beat, const StopSignals& signals) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) throw_system("pipe", errno);
  const OwnedFd read_end(ends[0]);
  OwnedFd write_end(ends[1]);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) throw_system("fork", errno);
  if (pid == 0) be_child(work, signals, write_end.get(), parent);
  Child child(pid, signals);
  int status = 0;
  while (!child.has_ended(status))
    if (signals.wait(kBeatEvery) == StopSignals::Woke::time) beat();
  judge_end(status, read_end.get());
}

}  // namespace dtrain::data
