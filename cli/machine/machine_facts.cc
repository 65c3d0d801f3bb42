// Reads and parses texts of the kernel.
#include "cli/machine/machine_facts.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <climits>
#include <cstdint>
#include <cstdlib>

#include "cli/base/text.h"
#include "cli/gpus/gpu_sources.h"
#include "launcher/base/small_file.h"
#include "launcher/process/cgroup.h"

namespace dtrain::cli {
namespace {

using launcher::read_small_file;

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  std::string word;
  for (char c : text + " ") {
    if (c != ' ' && c != '\t' && c != '\n') {
      word += c;
    } else if (!word.empty()) {
      words.push_back(word);
      word.clear();
    }
  }
  return words;
}

std::optional<double> decimal(const std::string& text) {
  std::uint64_t value = 0;  // reading a double would bring libm into every start
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return {};
  return static_cast<double>(value);
}

void take_least(std::optional<double>& field, std::optional<double> value) {
  if (value && (!field || *value < *field)) field = value;
}

bool has_socket(const std::string& pid, const std::vector<std::string>& inodes) {
  for (const std::string& fd : names_in("/proc/" + pid + "/fd")) {
    char target[PATH_MAX];
    ssize_t size = readlink(fmt::format("/proc/{}/fd/{}", pid, fd).c_str(), target, sizeof target);
    std::string_view link(target, size > 0 ? static_cast<std::size_t>(size) : 0);
    for (const std::string& inode : inodes)
      if (link == fmt::format("socket:[{}]", inode)) return true;
  }
  return false;
}

}  // namespace

std::string size_text(double bytes) {
  constexpr double kMiB = 1024.0 * 1024.0;
  return bytes >= 1024 * kMiB ? fmt::format("{:.1f} GiB", bytes / 1024 / kMiB)
                              : fmt::format("{:.0f} MiB", bytes / kMiB);
}

std::optional<double> parse_cpu_max(const std::string& text) {
  auto words = words_of(text);
  if (words.size() != 2) return {};
  auto quota = decimal(words[0]), period = decimal(words[1]);
  if (!quota || !period || *period <= 0) return {};
  return *quota / *period;
}

std::optional<double> parse_memory_max(const std::string& text) {
  auto words = words_of(text);
  return words.size() == 1 ? decimal(words[0]) : std::optional<double>();
}

CgroupLimits cgroup_limits() {
  CgroupLimits limits;
  auto folder =
      launcher::own_cgroup_folder(read_small_file("/proc/self/mountinfo"), read_small_file("/proc/self/cgroup"));
  if (!folder) return limits;
  limits.folder = *folder;
  for (std::string level = *folder; level.size() > 1; level = level.substr(0, level.rfind('/'))) {
    take_least(limits.cores, parse_cpu_max(read_small_file(level + "/cpu.max")));
    take_least(limits.bytes, parse_memory_max(read_small_file(level + "/memory.max")));
  }
  return limits;
}

std::vector<std::string> listening_inodes(const std::string& table, int port) {
  constexpr std::size_t kAddress = 1, kState = 3, kInode = 9;
  std::vector<std::string> inodes;
  std::string ending = fmt::format(":{:04X}", port);
  for (const std::string& line : split(table, '\n')) {
    auto words = words_of(line);
    if (words.size() > kInode && words[kState] == "0A" && words[kAddress].ends_with(ending))
      inodes.push_back(words[kInode]);
  }
  return inodes;
}

std::string who_listens(int port) {
  auto inodes = listening_inodes(read_small_file("/proc/net/tcp"), port);
  auto more = listening_inodes(read_small_file("/proc/net/tcp6"), port);
  inodes.insert(inodes.end(), more.begin(), more.end());
  if (inodes.empty()) return "";
  for (const std::string& pid : names_in("/proc")) {
    if (pid[0] < '0' || pid[0] > '9' || !has_socket(pid, inodes)) continue;
    std::string name = read_small_file("/proc/" + pid + "/comm");
    return fmt::format("{} ({})", printable(name.substr(0, name.find('\n'))), pid);
  }
  return "a process of another user or container";
}

std::string nvidia_driver_version() {
  for (const std::string& word : words_of(read_small_file("/proc/driver/nvidia/version")))
    if (word[0] >= '0' && word[0] <= '9' && word.find('.') != std::string::npos) return word;
  return "";
}

std::vector<std::string> nvidia_gpu_names() {
  std::vector<std::string> names;
  for (const std::string& place : names_in("/proc/driver/nvidia/gpus")) {
    std::string text = read_small_file("/proc/driver/nvidia/gpus/" + place + "/information");
    for (const std::string& line : split(text, '\n')) {
      if (!line.starts_with("Model:")) continue;
      std::size_t begin = line.find_first_not_of(" \t", 6);
      if (begin != std::string::npos) names.push_back(printable(line.substr(begin)));
    }
  }
  return names;
}

}  // namespace dtrain::cli
