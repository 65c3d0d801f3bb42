#include "strategies/kept/available_memory.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <string>

namespace dtrain::kept {
namespace {

std::string kernel_text(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// The number that follows `name` at the start of a line; the first of the text for an empty name.
std::optional<std::uint64_t> number_after(std::string_view text, std::string_view name) {
  std::size_t at = 0;
  while (!text.substr(at).starts_with(name)) {
    at = text.find('\n', at);
    if (at == std::string_view::npos) return std::nullopt;
    ++at;
  }
  at = text.find_first_not_of(' ', at + name.size());
  if (at == std::string_view::npos) return std::nullopt;
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), number);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

// The files of a group, by the version of cgroups.
struct GroupFiles {
  const char* root;
  const char* limit;
  const char* use;
};
constexpr GroupFiles kFirst{"/sys/fs/cgroup/memory", "/memory.limit_in_bytes", "/memory.usage_in_bytes"};
constexpr GroupFiles kSecond{"/sys/fs/cgroup", "/memory.max", "/memory.current"};

}  // namespace

std::optional<std::uint64_t> available_in(std::string_view meminfo) {
  const auto kib = number_after(meminfo, "MemAvailable:");
  return kib ? std::optional(*kib * 1024) : std::nullopt;
}

std::optional<std::uint64_t> left_in_group(std::string_view max, std::string_view current, std::string_view stat) {
  const auto most = number_after(max, "");
  const auto used = number_after(current, "");
  if (!most || !used) return std::nullopt;
  // The first version has the sum over the groups within under another name.
  const auto files = number_after(stat, "total_inactive_file ");
  const std::uint64_t kept = *used - std::min(*used, files ? *files : number_after(stat, "inactive_file ").value_or(0));
  return *most - std::min(*most, kept);
}

MemoryGroup memory_group(std::string_view proc_cgroup) {
  MemoryGroup group;
  while (!proc_cgroup.empty()) {
    // "5:memory:/a/b", or "0::/a/b" of the second version
    const std::string_view line = proc_cgroup.substr(0, proc_cgroup.find('\n'));
    proc_cgroup.remove_prefix(std::min(proc_cgroup.size(), line.size() + 1));
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    const std::string controllers = "," + std::string(line.substr(first + 1, second - first - 1)) + ",";
    if (controllers.find(",memory,") != std::string::npos) return {true, std::string(line.substr(second + 1))};
    if (line.starts_with("0::")) group.path = line.substr(second + 1);
  }
  return group;
}

std::optional<std::uint64_t> available_memory() {
  std::optional<std::uint64_t> least = available_in(kernel_text("/proc/meminfo"));
  const MemoryGroup own = memory_group(kernel_text("/proc/self/cgroup"));
  const GroupFiles& files = own.first_version ? kFirst : kSecond;
  std::string group = own.path;
  while (!group.empty()) {
    const std::string folder = std::string(files.root) + (group == "/" ? "" : group);
    const auto left = left_in_group(kernel_text(folder + files.limit), kernel_text(folder + files.use),
                                    kernel_text(folder + "/memory.stat"));
    if (left) least = std::min(*left, least.value_or(*left));
    group = group == "/" ? "" : group.substr(0, std::max<std::size_t>(group.rfind('/'), 1));
  }
  return least;
}

}  // namespace dtrain::kept
