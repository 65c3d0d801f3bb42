#include "launcher/sweep.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

#include "rendezvous/base/unique_fd.h"

namespace dtrain::launcher {

namespace {

struct Process {
  pid_t parent = 0;
  pid_t group = 0;
  char state = 0;
  long threads = 1;
};

// "pid (comm) S ppid pgrp ...": comm may hold anything, so look for the last ')'.
bool parse_stat(const char* text, Process& out) {
  const char* close = std::strrchr(text, ')');
  if (close == nullptr || close[1] != ' ') return false;
  out.state = close[2];
  char* rest = nullptr;
  out.parent = pid_t(std::strtol(close + 3, &rest, 10));
  out.group = pid_t(std::strtol(rest, &rest, 10));
  constexpr int kFieldsBetween = 14;  // from the group to num_threads, see proc(5)
  for (int i = 0; i < kFieldsBetween; ++i) std::strtoll(rest, &rest, 10);
  out.threads = std::strtol(rest, nullptr, 10);
  return true;
}

std::unordered_map<pid_t, Process> all_processes() {
  std::unordered_map<pid_t, Process> found;
  DIR* dir = ::opendir("/proc");
  if (dir == nullptr) return found;
  while (const dirent* entry = ::readdir(dir)) {
    const pid_t pid = pid_t(std::strtol(entry->d_name, nullptr, 10));
    if (pid <= 0) continue;
    char name[32];
    std::snprintf(name, sizeof name, "%d/stat", pid);
    UniqueFd fd(::openat(::dirfd(dir), name, O_RDONLY | O_CLOEXEC));
    char text[512];
    const ssize_t n = fd ? ::read(fd.get(), text, sizeof text - 1) : -1;
    if (n <= 0) continue;
    text[n] = 0;
    Process process;
    if (parse_stat(text, process)) found.emplace(pid, process);
  }
  ::closedir(dir);
  return found;
}

bool contains(const std::vector<pid_t>& pids, pid_t pid) {
  return std::find(pids.begin(), pids.end(), pid) != pids.end();
}

// A process whose main thread has ended while others run is shown as a zombie, but it lives.
bool is_dead(const Process& process) { return process.state == 'X' || (process.state == 'Z' && process.threads <= 1); }

struct Found {
  pid_t pid;
  pid_t group;
};

std::vector<Found> find_descendants(pid_t root, const std::vector<pid_t>& spare) {
  const auto processes = all_processes();
  std::unordered_map<pid_t, std::vector<pid_t>> children;
  for (const auto& [pid, process] : processes) children[process.parent].push_back(pid);
  std::vector<Found> found;
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
      if (!is_dead(process)) found.push_back({pid, process.group});
    }
  }
  return found;
}

}  // namespace

std::vector<pid_t> descendants(pid_t root, const std::vector<pid_t>& spare) {
  std::vector<pid_t> pids;
  for (const Found& f : find_descendants(root, spare)) pids.push_back(f.pid);
  return pids;
}

bool no_children() {
  siginfo_t info{};
  return ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 && errno == ECHILD;
}

int signal_descendants(pid_t root, int signal, const std::vector<pid_t>& skip_groups) {
  int sent = 0;
  for (const Found& f : find_descendants(root, {})) {
    if (!contains(skip_groups, f.group)) sent += ::kill(f.pid, signal) == 0;
  }
  return sent;
}

int kill_descendants(pid_t root, const std::vector<pid_t>& spare, int max_scans) {
  std::unordered_set<pid_t> killed;
  int quiet_scans = 0;
  for (int scan = 0; scan < max_scans && quiet_scans < 2; ++scan) {
    const auto before = killed.size();
    for (const pid_t pid : descendants(root, spare)) {
      if (::kill(pid, SIGKILL) == 0) killed.insert(pid);
    }
    quiet_scans = killed.size() == before ? quiet_scans + 1 : 0;
  }
  return int(killed.size());
}

}  // namespace dtrain::launcher
