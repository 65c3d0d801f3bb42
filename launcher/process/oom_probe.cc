#include "launcher/process/oom_probe.h"

#include <fmt/core.h>

#include <charconv>
#include <csignal>

#include "launcher/base/readable.h"
#include "launcher/base/small_file.h"
#include "launcher/process/cgroup.h"
#include "rendezvous/base/counted.h"

namespace dtrain::launcher {
namespace {

constexpr uint64_t kNoLimitV1 = uint64_t{1} << 62;
constexpr const char* kV2 = "/sys/fs/cgroup";
constexpr const char* kV1 = "/sys/fs/cgroup/memory";

// Take the text up to the next `end` off the front of `text`.
std::string_view take(std::string_view& text, char end) {
  size_t at = text.find(end);
  std::string_view front = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
  return front;
}

std::optional<uint64_t> kernel_number(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  uint64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<uint64_t> grown(std::optional<uint64_t> before, std::optional<uint64_t> after) {
  if (!before || !after) return std::nullopt;
  return *after > *before ? *after - *before : 0;
}

void read_v2(const std::string& folder, OomCounts& counts) {
  // The local file counts this cgroup alone, the other one its children too: workers may be in children.
  counts.cgroup = parse_counter(read_small_file(folder + "/memory.events"), "oom_kill");
  if (!counts.cgroup) counts.cgroup = parse_counter(read_small_file(folder + "/memory.events.local"), "oom_kill");
  counts.limit_bytes = parse_limit(read_small_file(folder + "/memory.max"));
  counts.peak_bytes = parse_limit(read_small_file(folder + "/memory.peak"));
}

void read_v1(const std::string& folder, OomCounts& counts) {
  counts.cgroup = parse_counter(read_small_file(folder + "/memory.oom_control"), "oom_kill");
  counts.limit_bytes = parse_limit(read_small_file(folder + "/memory.limit_in_bytes"));
  counts.peak_bytes = parse_limit(read_small_file(folder + "/memory.max_usage_in_bytes"));
}

}  // namespace

std::optional<uint64_t> parse_counter(std::string_view table, std::string_view name) {
  while (!table.empty()) {
    std::string_view line = take(table, '\n');
    if (take(line, ' ') == name) return kernel_number(line);
  }
  return std::nullopt;
}

std::optional<uint64_t> parse_limit(std::string_view text) {
  std::optional<uint64_t> value = kernel_number(text);
  return value && *value < kNoLimitV1 ? value : std::nullopt;
}

OomVerdict judge_oom(const ExitStatus& status, bool signaled_by_us, const OomCounts& before, const OomCounts& after) {
  bool killed = status.kind == ExitStatus::Kind::signaled && status.code == SIGKILL;
  if (!killed || signaled_by_us) return {};

  if (auto kills = grown(before.cgroup, after.cgroup); kills.value_or(0) > 0) {
    std::string text =
        fmt::format("the kernel's out-of-memory killer ended {} in the job's cgroup", counted(*kills, "process"));
    if (after.limit_bytes) text += fmt::format(", limit {}", readable_bytes(*after.limit_bytes));
    if (after.peak_bytes) text += fmt::format(", peak {}", readable_bytes(*after.peak_bytes));
    return {true, text};
  }
  // A global out-of-memory kill is counted in the victim's cgroup too, so a known cgroup count that stood still says
  // no.
  if (before.cgroup && after.cgroup) return {};
  if (auto kills = grown(before.machine, after.machine); kills.value_or(0) > 0) {
    return {true, fmt::format("the kernel's out-of-memory killer ended {} on this machine meanwhile",
                              counted(*kills, "process"))};
  }
  return {};
}

OomCounts read_oom_counts(const std::string& cgroup_folder) {
  OomCounts counts;
  counts.machine = parse_counter(read_small_file("/proc/vmstat"), "oom_kill");
  if (!cgroup_folder.empty()) read_v2(cgroup_folder, counts);
  if (counts.cgroup) return counts;

  std::string own = read_small_file("/proc/self/cgroup");
  if (auto folder = own_cgroup_folder(read_small_file("/proc/self/mountinfo"), own)) read_v2(*folder, counts);
  if (counts.cgroup) return counts;
  if (auto path = parse_own_cgroup(own, "memory")) read_v1(kV1 + *path, counts);
  // In a container the path is the host's, and the container's own cgroup is mounted at the top.
  if (!counts.cgroup) read_v1(kV1, counts);
  if (!counts.cgroup) read_v2(kV2, counts);
  return counts;
}

}  // namespace dtrain::launcher
