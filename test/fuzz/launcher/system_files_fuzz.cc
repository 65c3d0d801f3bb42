// Fuzzes what is read from /proc and /sys, and names of folders with logs. In a container anybody may have put those
// files there.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "launcher/evidence/core_path.h"
#include "launcher/logs/log_finder.h"
#include "launcher/process/cgroup.h"
#include "launcher/process/oom_probe.h"
#include "launcher/process/proc_info.h"
#include "rendezvous/base/check.h"

using namespace dtrain::launcher;

namespace {

void check_cgroup(const std::string& mountinfo, const std::string& self_cgroup) {
  const auto path = parse_own_cgroup(self_cgroup, "");
  DT_CHECK(!path || path->starts_with('/'), "a cgroup's path is absolute");
  const auto whole = own_cgroup_folder(mountinfo, self_cgroup);
  DT_CHECK(path || !whole, "without a path there is no folder");
  // The same below a mount that we know: it does not lead elsewhere.
  const std::string mount = "1 2 3:4 / /m rw - cgroup2 c rw\n";
  const auto folder = own_cgroup_folder(mount, self_cgroup);
  DT_CHECK(!folder || *folder == "/m" || folder->starts_with("/m/"), "the folder is below the mount");
  const auto part = own_cgroup_folder("1 2 3:4 /a /m rw - cgroup2 c rw\n", self_cgroup);
  DT_CHECK(!part || *part == "/m" || part->starts_with("/m/"), "also where a part of the tree is mounted");
}

void check_out_of_memory(std::string_view before, std::string_view after) {
  OomCounts counts[2];
  for (const int i : {0, 1}) {
    const std::string_view text = i == 0 ? before : after;
    counts[i].cgroup = parse_counter(text, "oom_kill");
    counts[i].machine = parse_counter(text, "oom");
    counts[i].limit_bytes = parse_limit(text);
  }
  const OomVerdict verdict = judge_oom(ExitStatus::signaled(9, false), false, counts[0], counts[1]);
  DT_CHECK(verdict.oom != verdict.evidence.empty(), "a verdict has its evidence");
  DT_CHECK(!judge_oom(ExitStatus::signaled(9, false), true, counts[0], counts[1]).oom, "dtrain's own KILL is none");
}

void check_names(const std::string& text) {
  LogAttempt attempt;
  if (parse_attempt(text, attempt)) DT_CHECK(attempt.restart_count >= 0 && attempt.again >= 1, "a round that can be");
  const std::string name = file_name_safe(text);
  DT_CHECK(name.size() <= 100 && name.find('/') == std::string::npos, "it stays in its folder");
  const DeadProcess dead{7, 11, "program", "/work", "node"};
  const std::string core = expand_core_pattern(text, text.size() % 2 == 0, dead);
  DT_CHECK(core.empty() || core.starts_with('/') || core.starts_with("handed to "), "an absolute path, or a phrase");
}

}  // namespace

// Up to the first zero byte: one file; the rest: another.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const std::size_t cut = std::min(text.find('\0'), text.size());
  const std::string first = text.substr(0, cut), second = text.substr(std::min(cut + 1, text.size()));
  check_cgroup(first, second);
  check_out_of_memory(first, second);
  check_names(first);
  return 0;
}
