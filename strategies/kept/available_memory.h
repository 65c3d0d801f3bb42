#pragma once
// How much memory this process may still take, as far as it can be known without taking it.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dtrain::kept {

// The least of what the machine has available (MemAvailable of /proc/meminfo) and what each cgroup of this process has
// left. Nothing: neither tells.
std::optional<std::uint64_t> available_memory();

// MemAvailable of the text of /proc/meminfo, in bytes.
std::optional<std::uint64_t> available_in(std::string_view meminfo);
// What a cgroup has left, by the texts of its limit, its use and its memory.stat: files that the kernel can drop from
// memory count as left. Nothing: it has no limit, or does not tell.
std::optional<std::uint64_t> left_in_group(std::string_view max, std::string_view current, std::string_view stat);

// The cgroup that counts the memory of this process, by the text of /proc/self/cgroup.
struct MemoryGroup {
  bool first_version = false;  // of cgroups: the controllers have hierarchies of their own
  std::string path;            // "/a/b"; empty: there is none
};
MemoryGroup memory_group(std::string_view proc_cgroup);

}  // namespace dtrain::kept
