#include "launcher/process/spawn.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <new>

#include "launcher/job/worker_env.h"
#include "launcher/process/cgroup.h"

#ifdef __SANITIZE_THREAD__
// glibc's other name of clone(). What ThreadSanitizer has in place of the first takes every call for a fork(), whose
// child would share its notes with us: it would look at this thread no longer.
extern "C" int __clone(int (*)(void*), void*, int, void*, ...);  // NOLINT(*-reserved-identifier)
constexpr auto& kClone = __clone;
#else
constexpr auto& kClone = ::clone;
#endif

namespace dtrain::launcher {

namespace {

// In memory shared with the parent, which the kernel holds still until the child has exec'd or ended.
struct Child {
  const SpawnRequest* request = nullptr;
  pid_t parent = 0;
  bool joins_cgroup = false;  // by itself: it did not begin there
  SpawnStep step = SpawnStep::none;
  int error = 0;
};

// Everything from here to exec may run in the parent's memory: system calls only, no allocation, no locks.

[[noreturn]] void fail(Child& child, SpawnStep step) {
  child.step = step;
  child.error = errno;
  ::_exit(127);
}

void reset_signals() {
  struct sigaction dfl {};
  dfl.sa_handler = SIG_DFL;
  for (int s = 1; s < NSIG; ++s) {
    if (s != SIGKILL && s != SIGSTOP) ::sigaction(s, &dfl, nullptr);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

// The kernel's own form: a bit for each CPU, in words of the machine. Linux has at most 8192.
constexpr size_t kMostCpus = 8192;
constexpr size_t kWordBits = 8 * sizeof(unsigned long);

void bind_to(Child& child, const CpuSet& cpus) {
  unsigned long mask[kMostCpus / kWordBits] = {};
  for (const int cpu : cpus) {
    if (size_t(cpu) >= kMostCpus) continue;
    mask[size_t(cpu) / kWordBits] |= 1UL << (size_t(cpu) % kWordBits);
  }
  if (::syscall(SYS_sched_setaffinity, 0, sizeof mask, mask) != 0) fail(child, SpawnStep::affinity);
}

void hand_over(Child& child, int from, int to, SpawnStep step) {
  if (from == to) {
    if (::fcntl(to, F_SETFD, 0) != 0) fail(child, step);
  } else if (::dup2(from, to) != to) {
    fail(child, step);
  }
}

const char* path_of(char** envp) {
  for (char** e = envp; *e != nullptr; ++e) {
    if (std::strncmp(*e, "PATH=", 5) == 0) return *e + 5;
  }
  return "/usr/local/bin:/usr/bin:/bin";
}

// execve with a PATH search; unlike execvp it does not hand a file of unknown format to the shell.
void exec_in_path(const SpawnRequest& request) {
  const char* name = request.argv[0];
  if (std::strchr(name, '/') != nullptr) {
    ::execve(name, request.argv, request.envp);
    return;
  }
  int error = ENOENT;
  char path[PATH_MAX];
  const size_t name_size = std::strlen(name) + 1;
  for (const char* dir = path_of(request.envp); *dir != 0;) {
    const char* end = std::strchr(dir, ':');
    const size_t size = end != nullptr ? size_t(end - dir) : std::strlen(dir);
    if (size + 1 + name_size <= sizeof path) {
      std::memcpy(path, dir, size);
      path[size] = '/';
      std::memcpy(path + size + (size > 0 ? 1 : 0), name, name_size);
      ::execve(path, request.argv, request.envp);
      if (errno != ENOENT && errno != ENOTDIR) error = errno;
    }
    dir += size + (end != nullptr ? 1 : 0);
  }
  errno = error;
}

// Before the signals are reset: SIGTTOU is blocked, which lets a process of the background take the terminal.
void enter_session(Child& child, const SpawnRequest& r) {
  if (r.session == Session::own) {
    if (::setsid() < 0) fail(child, SpawnStep::session);
    return;
  }
  if (::setpgid(0, 0) != 0) fail(child, SpawnStep::session);
  if (r.session == Session::foreground && ::tcsetpgrp(r.stdin_fd, ::getpgrp()) != 0) fail(child, SpawnStep::session);
}

int child_main(void* arg) {
  Child& child = *static_cast<Child*>(arg);
  const SpawnRequest& r = *child.request;
  enter_session(child, r);
  reset_signals();
  if (child.joins_cgroup && ::write(r.cgroup_procs_fd, "0", 1) != 1) fail(child, SpawnStep::cgroup);
  if (r.dies_with_caller && ::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) fail(child, SpawnStep::death_signal);
  if (::getppid() != child.parent) ::_exit(127);  // the parent died before the line above took hold
  if (r.cpus != nullptr) bind_to(child, *r.cpus);
  hand_over(child, r.stdin_fd, 0, SpawnStep::stdio);
  hand_over(child, r.stdout_fd, 1, SpawnStep::stdio);
  hand_over(child, r.stderr_fd, 2, SpawnStep::stdio);
  ::syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC);
  if (r.state_fd >= 0) hand_over(child, r.state_fd, kStateFd, SpawnStep::state);
  if (r.state_copy_fd >= 0) hand_over(child, r.state_copy_fd, kStateCopyFd, SpawnStep::state);
  if (r.nofile.rlim_max > 0) ::setrlimit(RLIMIT_NOFILE, &r.nofile);
  exec_in_path(r);
  fail(child, SpawnStep::exec);
}

}  // namespace

namespace {

// -1 with errno on failure.
int clone_child(Child& child, char* stack_end, int* pidfd) {
  const SpawnRequest& r = *child.request;
  if (r.cgroup_folder_fd >= 0) {
    const int pid = clone_into_cgroup(r.cgroup_folder_fd, CLONE_VFORK | CLONE_PIDFD, pidfd);
    if (pid == 0) ::_exit(child_main(&child));
    return pid;
  }
  child.joins_cgroup = r.cgroup_procs_fd >= 0;
  return kClone(child_main, stack_end, CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, &child, pidfd);
}

}  // namespace

SpawnResult spawn(const SpawnRequest& request) {
  static constexpr size_t kShared = 64 * 1024;  // Child, and a stack above it
  static void* const shared = ::mmap(nullptr, kShared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return {-1, UniqueFd(), SpawnStep::clone, ENOMEM};
  Child& child = *new (shared) Child{&request, ::getpid()};
  // No signal handler of ours may run in the child while it shares our memory.
  sigset_t all, before;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, &before);
  int pidfd = -1;
  const int pid = clone_child(child, static_cast<char*>(shared) + kShared, &pidfd);
  const int error = errno;
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) return {-1, UniqueFd(), SpawnStep::clone, error};
  UniqueFd owned(pidfd);
  if (child.step != SpawnStep::none) {
    ::waitpid(pid, nullptr, 0);
    return {-1, UniqueFd(), child.step, child.error};
  }
  return {pid, std::move(owned), SpawnStep::none, 0};
}

}  // namespace dtrain::launcher
