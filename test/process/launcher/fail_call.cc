// Lets one system call of one of dtrain's processes fail: `fail_call [ROLE:CALL:N:ERRNO] COMMAND...`. The N-th CALL
// (a number, from 1 on) that the process ROLE makes ends with ERRNO, unheard by the kernel; all other calls pass.
// Without the first word nothing fails, and every call is counted.
//   ROLE  front (the command itself), agent (a child of it), guard (a child of the agent), spawn (the guard's child
//   that
//         becomes a worker). What a worker's own program calls is never touched.
// The kernel asks us about each call of the command and of all its descendants (seccomp's user notification), so no
// process is traced, held up or changed. The command's start, until it is linked, is left alone.
//
// When nothing of the command is left, or $FAIL_CALL_DEADLINE seconds have passed, $FAIL_CALL_REPORT is written:
//   process ROLE PID
//   calls ROLE CALL COUNT         of the calls that were asked about
//   failed FIRST                  if it came so far; FIRST: the call's first argument
//   ended CODE                    of the command, as a shell says it
//   late                          something was left; it has been killed
//   cpu SECONDS                   of the command and all that it left behind
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace {

// Those that can fail for reasons outside of the program.
struct Call {
  int number;
  const char* name;
};
#define CALL(name) \
  { SYS_##name, #name }
constexpr Call kCalls[] = {
    CALL(accept4),
    CALL(bind),

    CALL(clone),
    CALL(clone3),
    CALL(close_range),
    CALL(connect),
    CALL(epoll_create1),
    CALL(epoll_ctl),
    CALL(eventfd2),
    CALL(execve),
    CALL(fchmod),
    CALL(fcntl),
    CALL(fstat),
    CALL(ftruncate),
    CALL(getdents64),
    CALL(getrandom),
    CALL(getsockname),
    CALL(getsockopt),
    CALL(ioctl),
    CALL(kill),
    CALL(listen),
    CALL(lseek),
    CALL(madvise),
    CALL(memfd_create),
    CALL(mmap),
    CALL(mount),
    CALL(mprotect),
    CALL(openat),
    CALL(pidfd_open),
    CALL(pidfd_send_signal),
    CALL(pipe2),
    CALL(ppoll),
    CALL(prctl),
    CALL(prlimit64),
    CALL(pwrite64),
    CALL(read),
    CALL(readlinkat),
    CALL(readv),
    CALL(recvfrom),
    CALL(recvmsg),
    CALL(sched_getaffinity),
    CALL(sendmsg),
    CALL(sendto),
    CALL(setpgid),
    CALL(setsid),
    CALL(setsockopt),
    CALL(shutdown),
    CALL(signalfd4),
    CALL(socket),
    CALL(socketpair),
    CALL(statx),
    CALL(sysinfo),
    CALL(timerfd_create),
    CALL(timerfd_settime),
    CALL(uname),
    CALL(unlinkat),
    CALL(unshare),
    CALL(write),
    CALL(writev),
#ifdef SYS_open  // those that newer machines have no more
    CALL(access),
    CALL(dup2),
    CALL(epoll_wait),
    CALL(fork),
    CALL(mkdir),
    CALL(newfstatat),
    CALL(open),
    CALL(pipe),
    CALL(poll),
    CALL(readlink),
    CALL(rename),
    CALL(rmdir),
    CALL(unlink),
    CALL(vfork),
#else
    CALL(dup3),
    CALL(epoll_pwait),
    CALL(faccessat),
    CALL(mkdirat),
#endif
};

const char* name_of(int number) {
  for (const Call& call : kCalls) {
    if (call.number == number) return call.name;
  }
  return nullptr;
}

int number_of(const char* name) {
  for (const Call& call : kCalls) {
    if (std::strcmp(call.name, name) == 0) return call.number;
  }
  return -1;
}

struct Fault {
  std::string role;
  int call = 0;
  int number = 0;
  int error = 0;
};

struct Process {
  pid_t parent = 0;
  std::string role;
};

// Shared with the child until it executes the command.
struct Shared {
  std::atomic<int> listener{-1};
  std::atomic<int> error{0};
};

[[noreturn]] void die(const char* what) {
  ::perror(what);
  std::exit(99);
}

std::string text_of(const std::string& path) {
  std::string text;
  if (FILE* file = std::fopen(path.c_str(), "re")) {
    char piece[1024];
    text.assign(piece, std::fread(piece, 1, sizeof piece, file));
    std::fclose(file);
  }
  return text;
}

// A number in /proc/PID/status; 0: gone.
pid_t status_of(pid_t pid, const char* name) {
  const std::string text = text_of("/proc/" + std::to_string(pid) + "/status");
  const auto at = text.find(std::string("\n") + name + ":\t");
  return at == std::string::npos ? 0 : pid_t(std::atoi(text.c_str() + at + std::strlen(name) + 3));
}

// "exe", "fd/3".
std::string link_of(pid_t pid, const char* name) {
  char path[4096];
  const ssize_t n = ::readlink(("/proc/" + std::to_string(pid) + "/" + name).c_str(), path, sizeof path);
  return n > 0 ? std::string(path, size_t(n)) : "";
}

// ---- the command under the filter -----------------------------------------------------------------------------------

// Ask about this call (-1: about all), and about the one that ends the command's linking.
int install_filter(int call) {
  const auto ask = sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
  const auto pass = sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  sock_filter one[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                       BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, unsigned(call), 1, 0),
                       BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prlimit64, 0, 1), ask, pass};
  sock_filter all[] = {ask};
  const sock_fprog program =
      call < 0 ? sock_fprog{1, all} : sock_fprog{static_cast<unsigned short>(std::size(one)), one};
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  return int(::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program));
}

struct Start {
  char** command;
  int call;
  Shared* shared;
};

// It shares our descriptors until it executes the command: so the listener is ours, too.
int start(void* argument) {
  const Start& s = *static_cast<Start*>(argument);
  const int listener = install_filter(s.call);
  if (listener < 0) s.shared->error = errno;
  s.shared->listener = listener;
  if (listener < 0) ::_exit(99);
  ::execvp(s.command[0], s.command);
  ::_exit(99);
}

// ---- who asks, and what is said -------------------------------------------------------------------------------------

class Judge {
 public:
  Judge(pid_t front, std::optional<Fault> fault) : front_(front), fault_(std::move(fault)) {}

  // The errno that this call is to end with; 0: let it pass.
  int judge(const seccomp_notif& asked) {
    const int call = int(asked.data.nr);
    const std::string role = role_of(pid_t(asked.pid));
    // ld.so asks for the stack's limit when all is linked.
    if (role == "front" && !linked_) {
      linked_ = call == SYS_prlimit64;
      return 0;
    }
    if (role.empty() || cannot_fail(asked)) return 0;
    const int number = ++counts_[{role, call}];
    if (!fault_ || role != fault_->role || call != fault_->call || number != fault_->number) return 0;
    char line[200];
    std::snprintf(line, sizeof line, "failed %lld\n", static_cast<long long>(asked.data.args[0]));
    said_ = line;
    return fault_->error;
  }

  // To make an open descriptor non-blocking, or to read what the kernel keeps in memory.
  static bool cannot_fail(const seccomp_notif& asked) {
    const seccomp_data& call = asked.data;
    if (call.nr == SYS_ioctl && call.args[1] == FIONBIO) return true;
    if (call.nr != SYS_read) return false;
    const std::string file = link_of(pid_t(asked.pid), ("fd/" + std::to_string(int(call.args[0]))).c_str());
    return file.starts_with("pipe:") || file.starts_with("anon_inode:");
  }

  std::string report() const {
    std::string text = said_;
    for (const auto& [pid, role] : processes_) text += "process " + role + " " + std::to_string(pid) + "\n";
    for (const auto& [which, count] : counts_) {
      const char* name = name_of(which.second);
      if (name != nullptr) text += "calls " + which.first + " " + name + " " + std::to_string(count) + "\n";
    }
    return text;
  }

 private:
  // Of a thread; remembered, as parents change when one dies. Empty: it is none of ours.
  std::string role_of(pid_t thread) {
    const pid_t pid = status_of(thread, "Tgid");
    if (pid == front_) return "front";
    if (const auto known = processes_.find(pid); known != processes_.end() && known->second != "spawn")
      return known->second;
    if (own_program_.empty()) own_program_ = link_of(front_, "exe");
    const std::string parent = role_of_parent(status_of(pid, "PPid"));
    std::string role = parent == "front" ? "agent" : parent == "agent" ? "guard" : parent == "guard" ? "spawn" : "";
    if (role == "spawn" && link_of(pid, "exe") != own_program_) role.clear();  // it is a worker by now
    if (pid != 0 && !role.empty()) processes_[pid] = role;
    return role;
  }

  std::string role_of_parent(pid_t pid) const {
    if (pid == front_) return "front";
    const auto known = processes_.find(pid);
    return known == processes_.end() ? "" : known->second;
  }

  const pid_t front_;
  const std::optional<Fault> fault_;
  std::map<pid_t, std::string> processes_;
  std::map<std::pair<std::string, int>, int> counts_;
  std::string own_program_;
  std::string said_;
  bool linked_ = false;
};

void answer(int listener, Judge& judge) {
  seccomp_notif asked{};
  if (::ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked) != 0) return;  // it died meanwhile
  seccomp_notif_resp response{};
  response.id = asked.id;
  response.error = -judge.judge(asked);
  if (response.error == 0) response.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
  ::ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response);
}

// Until no process under the filter is left. False: the time is over.
bool attend(int listener, Judge& judge, std::chrono::seconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
    pollfd fd{listener, POLLIN, 0};
    if (left <= 0) return false;
    if (::poll(&fd, 1, int(left)) < 0 && errno != EINTR) die("poll");
    if ((fd.revents & POLLIN) != 0)
      answer(listener, judge);
    else if ((fd.revents & POLLHUP) != 0)
      return true;
  }
}

// ---- the end --------------------------------------------------------------------------------------------------------

void kill_what_is_left(pid_t root) {
  for (int round = 0; round < 100; ++round) {
    std::string tasks = text_of("/proc/self/task/" + std::to_string(root) + "/children");
    if (tasks.empty()) return;
    for (char* at = tasks.data(); *at != 0;) {
      const pid_t pid = pid_t(std::strtol(at, &at, 10));
      if (pid <= 0) break;
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);  // what it left falls to us
    }
  }
}

Fault parse(char* text) {
  Fault fault;
  fault.role = std::strtok(text, ":");
  fault.call = number_of(std::strtok(nullptr, ":"));
  fault.number = std::atoi(std::strtok(nullptr, ":"));
  fault.error = std::atoi(std::strtok(nullptr, ":"));
  return fault;
}

double seconds(const timeval& t) { return double(t.tv_sec) + double(t.tv_usec) / 1e6; }

}  // namespace

int main(int argc, char** argv) {
  const bool fails = argc > 1 && std::strchr(argv[1], ':') != nullptr;
  if (argc < (fails ? 3 : 2)) return 2;
  const std::optional<Fault> fault = fails ? std::optional(parse(argv[1])) : std::nullopt;
  void* page = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) die("mmap");
  auto* shared = new (page) Shared;
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  Start begin{argv + (fails ? 2 : 1), fault ? fault->call : -1, shared};
  std::vector<char> stack(1 << 18);
  const pid_t front = ::clone(start, stack.data() + stack.size(), CLONE_FILES | SIGCHLD, &begin);
  if (front < 0) die("clone");
  while (shared->listener < 0 && shared->error == 0) ::sched_yield();
  if (shared->error != 0) {
    errno = shared->error;
    die("seccomp");
  }
  Judge judge(front, fault);
  const char* deadline = std::getenv("FAIL_CALL_DEADLINE");
  const bool in_time =
      attend(shared->listener, judge, std::chrono::seconds(deadline != nullptr ? std::atoi(deadline) : 60));
  if (!in_time) {
    ::close(shared->listener);  // whoever waits for an answer goes on
    kill_what_is_left(::getpid());
  }
  int code = -1;
  for (int status = 0; in_time;) {
    const pid_t pid = ::waitpid(-1, &status, 0);
    if (pid < 0) break;
    if (pid == front) code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  rusage used{};
  ::getrusage(RUSAGE_CHILDREN, &used);
  const std::string report = judge.report() + (in_time ? "ended " + std::to_string(code) : std::string("late")) +
                             "\ncpu " + std::to_string(seconds(used.ru_utime) + seconds(used.ru_stime)) + "\n";
  const char* path = std::getenv("FAIL_CALL_REPORT");
  FILE* file = std::fopen(path != nullptr ? path : "/dev/stderr", "we");
  return file != nullptr && std::fputs(report.c_str(), file) >= 0 && std::fclose(file) == 0 ? 0 : 99;
}
