// A worker that makes itself hard to stop: `hostile KIND [END]`. It sets itself up as KIND says, prints "ready" and
// ends as END says. Every process of it carries the name in $HOSTILE_TAG, so a test can find it wherever it went, and
// (unless it closed its descriptors) holds the standard input it was given.
//   plain       one process
//   stubborn    ignores TERM, INT, HUP and QUIT
//   grandchild  a stubborn child in the same process group
//   daemon      a stubborn process that left by double fork and setsid
//   closed      a daemon that closed all its descriptors
//   tree[:N]    N stubborn processes, each the parent of up to ten (1,000)
//   bomb        stubborn processes that fork for ever, some 200 at a time, half of them in sessions of their own
// END: wait (default), or busy: wait in the kernel (state D), where SIGSTOP does not act. Or exit:CODE, kill:SIGNAL:
// the worker itself ends so, what it started stays.
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <system_error>

namespace {

const char* setting(const char* name, const char* fallback) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : fallback;
}

void take_name() { ::prctl(PR_SET_NAME, setting("HOSTILE_TAG", "hostile")); }

void be_stubborn() {
  for (const int s : {SIGTERM, SIGINT, SIGHUP, SIGQUIT}) std::signal(s, SIG_IGN);
}

[[noreturn]] void wait_for_ever() {
  for (;;) ::pause();
}

pid_t fork_or_die() {
  const pid_t pid = ::fork();
  if (pid < 0) {
    ::perror("hostile: fork");
    std::exit(99);
  }
  return pid;
}

// The parent goes on once the process it started has set itself up: that one closes the pipe.
class Gate {
 public:
  Gate() {
    if (::pipe(ends_) != 0) std::exit(99);
  }
  void open() {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  void wait() {
    char c;
    ::close(ends_[1]);
    [[maybe_unused]] const auto n = ::read(ends_[0], &c, 1);
    ::close(ends_[0]);
  }

 private:
  int ends_[2];
};

void start_grandchild() {
  Gate gate;
  if (fork_or_die() == 0) {
    be_stubborn();
    gate.open();
    wait_for_ever();
  }
  gate.wait();
}

void start_daemon(bool close_descriptors) {
  Gate gate;
  const pid_t first = fork_or_die();
  if (first == 0) {
    ::setsid();
    if (fork_or_die() != 0) ::_exit(0);
    be_stubborn();
    gate.open();
    if (close_descriptors) {
      for (int fd = 0; fd < 3; ++fd) ::close(fd);
    }
    wait_for_ever();
  }
  gate.wait();
  ::waitpid(first, nullptr, 0);
}

// The caller is one of `count` processes; it starts the others. Each holds `gate` until its own are started.
void grow_tree(int count) {
  int left = count - 1;
  for (int branch = 0; branch < 10 && left > 0; ++branch) {
    const int share = (left + (10 - branch) - 1) / (10 - branch);
    left -= share;
    if (fork_or_die() == 0) {
      grow_tree(share);
      return;
    }
  }
}

void start_tree(int count) {
  Gate gate;
  be_stubborn();
  const pid_t root = ::getpid();
  grow_tree(count);
  if (::getpid() != root) {
    gate.open();
    wait_for_ever();
  }
  gate.wait();
}

// Threads of this user, which is what RLIMIT_NPROC is compared with.
int threads_of_user() {
  int count = 0;
  for (const auto& process : std::filesystem::directory_iterator("/proc")) {
    struct stat status {};
    if (::stat(process.path().c_str(), &status) != 0 || status.st_uid != ::geteuid()) continue;
    std::error_code gone;
    for (std::filesystem::directory_iterator task(process.path() / "task", gone), end; !gone && task != end;) {
      ++count;
      task.increment(gone);
    }
  }
  return count;
}

// Each one forks as often as the kernel lets it; some end, so that the forking never does. Bounded by RLIMIT_NPROC,
// which root is exempt from: root becomes nobody.
void start_bomb() {
  constexpr unsigned kProcesses = 200;
  be_stubborn();
  std::signal(SIGCHLD, SIG_IGN);
  if (fork_or_die() != 0) return;
  if (::geteuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) std::exit(99);
  const rlim_t most = rlim_t(threads_of_user()) + kProcesses;
  const rlimit limit{most, most};
  if (::setrlimit(RLIMIT_NPROC, &limit) != 0) std::exit(99);
  for (unsigned turn = unsigned(::getpid());; ++turn) {
    const pid_t pid = ::fork();
    if (pid == 0 && turn % 2 == 0) ::setsid();
    if (pid < 0 && turn % 5 == 0) ::_exit(0);
    if (pid < 0) {
      const timespec nap{0, 2000000};
      ::nanosleep(&nap, nullptr);  // tidy: allow sleep, because a bomb that spins would starve the test itself
    }
  }
}

bool start(const char* kind) {
  const auto is = [&](const char* name) { return std::strcmp(kind, name) == 0; };
  if (is("plain")) return true;
  if (is("stubborn"))
    be_stubborn();
  else if (is("grandchild"))
    start_grandchild();
  else if (is("daemon"))
    start_daemon(false);
  else if (is("closed"))
    start_daemon(true);
  else if (std::strncmp(kind, "tree", 4) == 0)
    start_tree(kind[4] == ':' ? std::atoi(kind + 5) : 1000);
  else if (is("bomb"))
    start_bomb();
  else
    return false;
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  take_name();
  if (argc < 2 || !start(argv[1])) return 2;
  [[maybe_unused]] const auto n = ::write(1, "ready\n", 6);
  const char* end = argc > 2 ? argv[2] : "wait";
  if (std::strncmp(end, "exit:", 5) == 0) ::_exit(std::atoi(end + 5));
  if (std::strncmp(end, "kill:", 5) == 0) {
    std::signal(std::atoi(end + 5), SIG_DFL);
    ::raise(std::atoi(end + 5));
  }
  if (std::strcmp(end, "busy") == 0 && ::vfork() != 0) std::exit(99);  // the parent is busy until the child ends
  wait_for_ever();
}
