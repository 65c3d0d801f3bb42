#include "launcher/process/pid_namespace.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <string>

#include "rendezvous/base/unique_fd.h"

namespace dtrain::launcher {

namespace {

pid_t fork_into(unsigned long flags) { return pid_t(::syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0)); }

void write_file(const char* path, const std::string& text) {
  UniqueFd fd(::open(path, O_WRONLY | O_CLOEXEC));
  if (fd && ::write(fd.get(), text.data(), text.size()) < 0) ::perror(path);
}

}  // namespace

pid_t PidNamespace::fork() {
  uid_ = ::geteuid();
  gid_ = ::getegid();
  const pid_t pid = fork_into(CLONE_NEWPID | CLONE_NEWNS);
  if (pid >= 0 || errno != EPERM) return pid;
  user_namespace_ = true;
  return fork_into(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS);
}

// In a fresh PID namespace /proc must be that namespace's own, for us and for the workers.
bool PidNamespace::enter() const {
  if (user_namespace_) {
    // Of a process that is not dumpable (across hosts) these files are root's.
    const int before = ::prctl(PR_GET_DUMPABLE);
    ::prctl(PR_SET_DUMPABLE, 1);
    write_file("/proc/self/setgroups", "deny");
    write_file("/proc/self/uid_map", std::to_string(uid_) + " " + std::to_string(uid_) + " 1");
    write_file("/proc/self/gid_map", std::to_string(gid_) + " " + std::to_string(gid_) + " 1");
    ::prctl(PR_SET_DUMPABLE, before);
  }
  return ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) == 0;
}

}  // namespace dtrain::launcher
