#pragma once
// OomProbe tells whether the kernel's out-of-memory killer ended a worker, from counters taken before and after.
//
// Sources, best first: a cgroup v2 memory.events[.local], a cgroup v1 memory.oom_control, /proc/vmstat for the whole
// machine. The parsers are pure and take any bytes; only snapshot() reads files.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/job/exit_status.h"

namespace dtrain::launcher {

// Kills since boot (vmstat) or since the cgroup was made; unset where the source does not exist.
struct OomCounts {
  std::optional<uint64_t> cgroup;       // of the workers' own cgroup
  std::optional<uint64_t> machine;      // of the whole machine
  std::optional<uint64_t> limit_bytes;  // the cgroup's memory limit, if it has one
  std::optional<uint64_t> peak_bytes;   // the most it used, where the kernel keeps it
};

struct OomVerdict {
  bool oom = false;
  // One line why, e.g. "the kernel's out-of-memory killer ended 1 process of the job's cgroup (limit 1.2 GiB)".
  std::string evidence;
};

// The number after `name` in a "name value" table (memory.events, memory.oom_control, vmstat).
std::optional<uint64_t> parse_counter(std::string_view table, std::string_view name);
// A limit file's number; nothing for "max", v1's "no limit" (about 2^63) or anything else.
std::optional<uint64_t> parse_limit(std::string_view text);

// Judge a worker's end. signaled_by_us: dtrain sent it SIGKILL, which is then the cause. Counters that did not move
// never give a verdict; those of the whole machine do only when no cgroup is known.
OomVerdict judge_oom(const ExitStatus& status, bool signaled_by_us, const OomCounts& before, const OomCounts& after);

// Read the counters. cgroup_folder: the workers' cgroup v2 folder; empty: the cgroup that dtrain itself is in.
OomCounts read_oom_counts(const std::string& cgroup_folder);

}  // namespace dtrain::launcher
