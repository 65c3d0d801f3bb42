#include "launcher/process/left_behind.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <unordered_map>

#include "launcher/base/readable.h"
#include "launcher/base/small_file.h"
#include "launcher/process/sweep.h"
#include "rendezvous/base/counted.h"
#include "rendezvous/base/printable.h"

namespace dtrain::launcher {

namespace {

constexpr size_t kMostNames = 3;

// RANK in the environment that the process was started with.
std::optional<int> rank_of(pid_t pid) {
  const std::string environment = '\0' + read_small_file(fmt::format("/proc/{}/environ", pid));
  static const std::string name("\0RANK=", 6);
  const auto at = environment.find(name);
  if (at == std::string::npos) return std::nullopt;
  char* end = nullptr;
  const char* const text = environment.c_str() + at + name.size();
  const long rank = std::strtol(text, &end, 10);
  if (end == text || *end != 0 || rank < 0) return std::nullopt;
  return int(rank);
}

std::string names(const std::vector<LeftBehind>& left) {
  std::string text;
  for (size_t i = 0; i < std::min(left.size(), kMostNames); ++i) {
    text += fmt::format("{}{} pid {}", i == 0 ? "" : ", ", printable(left[i].name), left[i].pid);
  }
  return left.size() > kMostNames ? text + ", ..." : text;
}

const char* them(const std::vector<LeftBehind>& left) { return left.size() == 1 ? "it" : "them"; }

}  // namespace

std::vector<LeftBehind> left_below(pid_t root) {
  std::vector<LeftBehind> left;
  for (const Descendant& d : look_below(root)) left.push_back({d.pid, d.name, std::nullopt});
  return left;
}

std::vector<LeftBehind> left_below_with_ranks(pid_t root) {
  std::vector<LeftBehind> left;
  std::unordered_map<pid_t, std::optional<int>> ranks;  // a launcher among them gives its own workers other ranks
  for (const Descendant& d : look_below(root)) {
    const auto parent = ranks.find(d.parent);
    const auto rank = parent != ranks.end() ? parent->second : rank_of(d.pid);
    ranks[d.pid] = rank;
    left.push_back({d.pid, d.name, rank});
  }
  return left;
}

std::string left_text(const std::vector<LeftBehind>& left) {
  if (left.empty()) return "";
  std::vector<int> ranks;
  for (const LeftBehind& l : left) {
    if (l.rank) ranks.push_back(*l.rank);
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return fmt::format("{} left {} behind ({}): ending {}", ranks.empty() ? "the workers" : fold_ranks(ranks),
                     counted(left.size(), "process"), names(left), them(left));
}

std::string too_late_text(const std::vector<LeftBehind>& left) {
  if (left.empty()) return "";
  return fmt::format("{} that workers had started ({}) did not end in time: killing {}",
                     counted(left.size(), "process"), names(left), them(left));
}

}  // namespace dtrain::launcher
