// Tested by test/unit/data/entry/build_entry_test.cc.
#include "data/entry/build_child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
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

[[noreturn]] void be_child(const std::function<void()>& work, int words_to, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(kSystemCode);
  ::signal(SIGINT, SIG_IGN);  // of a terminal: the parent has it too, and decides
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

// `doing`: what the child was for.
void judge_end(const char* doing, int status, int words_from) {
  if (WIFSIGNALED(status)) {
    const char* why = WTERMSIG(status) == SIGKILL ? "; perhaps the kernel had no more memory for it" : "";
    throw CacheError(kSystemCode, fmt::format("the process that {} was killed by signal {} ({}){}", doing,
                                              WTERMSIG(status), ::strsignal(WTERMSIG(status)), why));
  }
  if (WEXITSTATUS(status) != 0) throw CacheError(WEXITSTATUS(status), words_of_child(words_from));
}

struct Words {
  OwnedFd read_end, write_end;
};

Words words_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) throw_system("pipe", errno);
  return {OwnedFd(ends[0]), OwnedFd(ends[1])};
}

pid_t forked(const std::function<void()>& work, int words_to) {
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) throw_system("fork", errno);
  if (pid == 0) be_child(work, words_to, parent);
  return pid;
}

std::string all_of(int file) {
  std::string text(static_cast<std::size_t>(std::max<off_t>(::lseek(file, 0, SEEK_END), 0)), '\0');
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t got = ::pread(file, text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) throw_system("a child's answer", errno);
    done += static_cast<std::size_t>(got);
  }
  return text;
}

}  // namespace

void run_in_child(const std::function<void()>& work, const std::function<void()>& beat, const StopSignals& signals) {
  const Words words = words_pipe();
  const auto with_signals = [&] {
    signals.restore();
    work();
  };
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  Child child(forked(with_signals, words.write_end.get()), signals);
  int status = 0;
  while (!child.has_ended(status))
    if (signals.wait(kBeatEvery) == StopSignals::Woke::time) beat();
  judge_end("builds the entry", status, words.read_end.get());
}

std::string said_by_child(const std::function<std::string()>& work) {
  const Words words = words_pipe();
  const OwnedFd answer(::memfd_create("dtrain-answer", MFD_CLOEXEC));
  if (!answer) throw_system("memfd_create", errno);
  const pid_t pid =
      forked([&] { write_over(answer.get(), work(), "memory for a child's answer"); }, words.write_end.get());
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0)
    if (errno != EINTR) throw_system("waitpid", errno);
  judge_end("looks for the input", status, words.read_end.get());
  return all_of(answer.get());
}

}  // namespace dtrain::data
