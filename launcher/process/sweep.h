#pragma once
// Find and signal every descendant of a process by walking /proc. Complete for a subreaper: whatever a worker starts,
// and however it daemonises, stays a descendant of the nearest living subreaper above it.
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace dtrain::launcher {

// Whether /proc shows the processes of the caller's PID namespace. Where it does not (none is mounted, or another
// namespace's), nothing below finds a process.
bool can_find_processes();

// Pids of all living descendants of `root` (not root itself), without the processes in `spare` and their descendants.
// Zombies are left out. A snapshot: processes may appear and vanish meanwhile.
std::vector<pid_t> descendants(pid_t root, const std::vector<pid_t>& spare = {});

struct Descendant {
  pid_t pid;
  pid_t parent;
  pid_t group;
  pid_t session;
  std::uint64_t start;  // in clock ticks since boot: with the pid, who it is
  std::string name;     // as it calls itself: bytes of any kind, up to 15 of them
};

// The living descendants of `root`, each after its parent.
std::vector<Descendant> look_below(pid_t root);

// Signal one of them, unless its number has been given to another process meanwhile. Whether it was sent.
bool signal_descendant(const Descendant& target, int signal);

// Whether no descendant of `root` runs: each of its threads is stopped, by a signal or by a debugger, or is dead. A
// signal that stops acts only when its thread has its turn of a core, and not while the kernel is busy for it (state
// D).
bool all_stopped(pid_t root);

// Whether the caller has no child at all, dead or alive. For a subreaper: nothing is left below it.
bool no_children();

// How many dead children are reaped in a row, at most. Where processes fork and end for ever, more may have died by
// then, each time: whoever reaps must come to its other work.
inline constexpr int kReapedInARow = 64;

// When whoever reaps and kills is to sweep again: each time, but where thousands die at once, not for each
// kReapedInARow of the dead.
class SweepPace {
 public:
  // `more_dead`: there may be dead children that are not reaped yet.
  bool due(bool more_dead);

 private:
  std::chrono::steady_clock::time_point next_{};
};

// Send `signal` once to every descendant that is in none of `skip_groups` (process groups that already got it).
// Returns how many got it.
int signal_descendants(pid_t root, int signal, const std::vector<pid_t>& skip_groups);

// Kill every descendant, new ones too, until two scans in a row show none that has not been sent SIGKILL. A process
// with SIGKILL pending cannot fork any more, so then nothing can appear. A fork bomb may outrun the scans: no scan
// begins after a quarter of a second, so that the caller can reap, which makes scans shorter, and come again. Returns
// the number of processes killed.
int kill_descendants(pid_t root, const std::vector<pid_t>& spare = {});

// Kill every descendant of the caller, a subreaper, and reap it, until nothing is left or `limit` is over. SIGCHLD must
// be blocked. Returns whether nothing is left.
bool end_descendants(std::chrono::milliseconds limit);

}  // namespace dtrain::launcher
