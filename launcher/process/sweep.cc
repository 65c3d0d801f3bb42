#include "launcher/process/sweep.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "rendezvous/base/unique_fd.h"

namespace dtrain::launcher {

namespace {

struct Process {
  pid_t parent = 0;
  pid_t group = 0;
  pid_t session = 0;
  char state = 0;
  long threads = 1;
  std::uint64_t start = 0;  // in clock ticks since boot; with the number it names one process for ever
  std::string name;
};

// "pid (comm) S ppid pgrp ...": comm may hold anything, so look for the last ')'.
bool parse_stat(const char* text, Process& out) {
  const char* open = std::strchr(text, '(');
  const char* close = std::strrchr(text, ')');
  if (open == nullptr || close == nullptr || close[1] != ' ') return false;
  out.name.assign(open + 1, close);
  out.state = close[2];
  char* rest = nullptr;
  out.parent = pid_t(std::strtol(close + 3, &rest, 10));
  out.group = pid_t(std::strtol(rest, &rest, 10));
  out.session = pid_t(std::strtol(rest, &rest, 10));
  constexpr int kFieldsBetween = 13;  // from the session to num_threads, see proc(5)
  for (int i = 0; i < kFieldsBetween; ++i) std::strtoll(rest, &rest, 10);
  out.threads = std::strtol(rest, &rest, 10);
  std::strtoll(rest, &rest, 10);  // itrealvalue
  out.start = std::strtoull(rest, nullptr, 10);
  return true;
}

bool read_process(int proc, pid_t pid, Process& out) {
  char name[32];
  std::snprintf(name, sizeof name, "%d/stat", pid);
  UniqueFd fd(::openat(proc, name, O_RDONLY | O_CLOEXEC));
  char text[512];
  const ssize_t n = fd ? ::read(fd.get(), text, sizeof text - 1) : -1;
  if (n <= 0) return false;
  text[n] = 0;
  return parse_stat(text, out);
}

// The processes of /proc, or the threads of /proc/PID/task. None where the folder cannot be read.
std::unordered_map<pid_t, Process> read_processes(const char* folder) {
  std::unordered_map<pid_t, Process> found;
  DIR* dir = ::opendir(folder);
  if (dir == nullptr) return found;
  while (const dirent* entry = ::readdir(dir)) {
    const pid_t pid = pid_t(std::strtol(entry->d_name, nullptr, 10));
    Process process;
    if (pid > 0 && read_process(::dirfd(dir), pid, process)) found.emplace(pid, process);
  }
  ::closedir(dir);
  return found;
}

std::unordered_map<pid_t, Process> all_processes() {
  return can_find_processes() ? read_processes("/proc") : std::unordered_map<pid_t, Process>();
}

bool contains(const std::vector<pid_t>& pids, pid_t pid) {
  return std::find(pids.begin(), pids.end(), pid) != pids.end();
}

// A process whose main thread has ended while others run is shown as a zombie, but it lives.
bool is_dead(const Process& process) { return process.state == 'X' || (process.state == 'Z' && process.threads <= 1); }

// True also of a process that has ended meanwhile.
bool all_threads_still(pid_t pid) {
  char folder[32];
  std::snprintf(folder, sizeof folder, "/proc/%d/task", pid);
  const auto threads = read_processes(folder);
  return std::all_of(threads.begin(), threads.end(), [](const auto& thread) {
    return std::string_view("TtZX").find(thread.second.state) != std::string_view::npos;
  });
}

std::vector<Descendant> find_descendants(pid_t root, const std::vector<pid_t>& spare) {
  const auto processes = all_processes();
  std::unordered_map<pid_t, std::vector<pid_t>> children;
  for (const auto& [pid, process] : processes) children[process.parent].push_back(pid);
  std::vector<Descendant> found;
  std::vector<pid_t> queue{root};
  while (!queue.empty()) {
    const pid_t parent = queue.back();
    queue.pop_back();
    const auto it = children.find(parent);
    if (it == children.end()) continue;
    for (const pid_t pid : it->second) {
      if (contains(spare, pid)) continue;
      queue.push_back(pid);
      const Process& process = processes.at(pid);
      if (!is_dead(process))
        found.push_back({pid, parent, process.group, process.session, process.start, process.name});
    }
  }
  return found;
}

}  // namespace

bool can_find_processes() {
  char self[32] = {};
  const ssize_t n = ::readlink("/proc/self", self, sizeof self - 1);
  return n > 0 && std::strtol(self, nullptr, 10) == ::getpid();
}

std::vector<pid_t> descendants(pid_t root, const std::vector<pid_t>& spare) {
  std::vector<pid_t> pids;
  for (const Descendant& d : find_descendants(root, spare)) pids.push_back(d.pid);
  return pids;
}

// The number may have been given anew since the walk: hold the process first, then look whether it is still the one
// that was found, and only then signal the one that is held.
bool signal_descendant(const Descendant& target, int signal) {
  const UniqueFd held(int(::syscall(SYS_pidfd_open, target.pid, 0)));
  if (!held && errno == ESRCH) return false;
  const UniqueFd proc(::open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  Process now;
  // Without a descriptor to spare for the look, a process that lives on is worse.
  if (proc && read_process(proc.get(), target.pid, now) && now.start != target.start) return false;
  if (!held) return ::kill(target.pid, signal) == 0;
  return ::syscall(SYS_pidfd_send_signal, held.get(), signal, nullptr, 0) == 0;
}

std::vector<Descendant> look_below(pid_t root) { return find_descendants(root, {}); }

bool all_stopped(pid_t root) {
  const auto pids = descendants(root);
  return std::all_of(pids.begin(), pids.end(), all_threads_still);
}

bool no_children() {
  siginfo_t info{};
  return ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 && errno == ECHILD;
}

int signal_descendants(pid_t root, int signal, const std::vector<pid_t>& skip_groups) {
  int sent = 0;
  for (const Descendant& d : find_descendants(root, {})) {
    if (!contains(skip_groups, d.group)) sent += signal_descendant(d, signal);
  }
  return sent;
}

int kill_descendants(pid_t root, const std::vector<pid_t>& spare) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(250);
  std::unordered_set<pid_t> killed;
  int quiet_scans = 0;
  for (bool again = true; again; again = quiet_scans < 2 && std::chrono::steady_clock::now() < end) {
    const auto before = killed.size();
    for (const Descendant& d : find_descendants(root, spare)) {
      if (signal_descendant(d, SIGKILL)) killed.insert(d.pid);
    }
    quiet_scans = killed.size() == before ? quiet_scans + 1 : 0;
  }
  return int(killed.size());
}

bool SweepPace::due(bool more_dead) {
  constexpr auto kEvery = std::chrono::milliseconds(50);
  const auto now = std::chrono::steady_clock::now();
  if (more_dead && now < next_) return false;
  next_ = now + kEvery;
  return true;
}

bool end_descendants(std::chrono::milliseconds limit) {
  constexpr timespec kLookAgain{0, 50'000'000};  // for what a racing fork hid from the last sweep
  sigset_t child_ended;
  ::sigemptyset(&child_ended);
  ::sigaddset(&child_ended, SIGCHLD);
  const auto end = std::chrono::steady_clock::now() + limit;
  SweepPace pace;
  for (;;) {
    siginfo_t info{};
    int dead = 0;
    while (dead < kReapedInARow && ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG) == 0 && info.si_pid != 0) {
      info = {};
      ++dead;
    }
    const bool more_dead = dead == kReapedInARow;  // and perhaps no SIGCHLD to come: many deaths are one signal
    if (no_children()) return true;
    if (std::chrono::steady_clock::now() > end) return false;
    if (pace.due(more_dead)) kill_descendants(::getpid());
    if (!more_dead) ::sigtimedwait(&child_ended, nullptr, &kLookAgain);
  }
}

}  // namespace dtrain::launcher
