#include "strategies/kept/available_memory.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <string>

namespace dtrain::kept {
namespace {

constexpr std::string_view kGroups = "/sys/fs/cgroup";

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

// "/a/b" of the line "0::/a/b"
std::string own_group(std::string_view proc_cgroup) {
  std::size_t at = proc_cgroup.starts_with("0::") ? 0 : proc_cgroup.find("\n0::");
  if (at == std::string_view::npos) return {};
  at = proc_cgroup.find('/', at);
  return std::string(proc_cgroup.substr(at, proc_cgroup.find('\n', at) - at));
}

}  // namespace

std::optional<std::uint64_t> available_in(std::string_view meminfo) {
  const auto kib = number_after(meminfo, "MemAvailable:");
  return kib ? std::optional(*kib * 1024) : std::nullopt;
}

std::optional<std::uint64_t> left_in_group(std::string_view max, std::string_view current, std::string_view stat) {
  const auto most = number_after(max, "");
  const auto used = number_after(current, "");
  if (!most || !used) return std::nullopt;
  const std::uint64_t kept = *used - std::min(*used, number_after(stat, "inactive_file ").value_or(0));
  return *most - std::min(*most, kept);
}

std::optional<std::uint64_t> available_memory() {
  std::optional<std::uint64_t> least = available_in(kernel_text("/proc/meminfo"));
  std::string group = own_group(kernel_text("/proc/self/cgroup"));
  while (!group.empty()) {
    const std::string folder = std::string(kGroups) + (group == "/" ? "" : group);
    const auto left = left_in_group(kernel_text(folder + "/memory.max"), kernel_text(folder + "/memory.current"),
                                    kernel_text(folder + "/memory.stat"));
    if (left) least = std::min(*left, least.value_or(*left));
    group = group == "/" ? "" : group.substr(0, std::max<std::size_t>(group.rfind('/'), 1));
  }
  return least;
}

}  // namespace dtrain::kept
