#pragma once
// Find and signal every descendant of a process by walking /proc. Complete for a subreaper: whatever a worker starts,
// and however it daemonises, stays a descendant of the nearest living subreaper above it.
#include <sys/types.h>

#include <vector>

namespace dtrain::launcher {

// Pids of all living descendants of `root` (not root itself), without the processes in `spare` and their descendants.
// Zombies are left out. A snapshot: processes may appear and vanish meanwhile.
std::vector<pid_t> descendants(pid_t root, const std::vector<pid_t>& spare = {});

// Whether the caller has no child at all, dead or alive. For a subreaper: nothing is left below it.
bool no_children();

// Send `signal` once to every descendant that is in none of `skip_groups` (process groups that already got it).
// Returns how many got it.
int signal_descendants(pid_t root, int signal, const std::vector<pid_t>& skip_groups);

// Kill every descendant, new ones too, until two scans in a row show none that has not been sent SIGKILL. A process
// with SIGKILL pending cannot fork any more, so then nothing can appear. Returns the number of processes killed.
// `max_scans` bounds the race against a fork bomb that outruns the scans.
int kill_descendants(pid_t root, const std::vector<pid_t>& spare = {}, int max_scans = 2000);

}  // namespace dtrain::launcher
