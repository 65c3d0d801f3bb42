#include "cli/program/build_lock.h"

#include <fmt/format.h>

#include "cli/base/text.h"
#include "launcher/base/readable.h"

namespace dtrain::cli {
namespace {

// A single file of CUDA templates may take a quarter of an hour.
constexpr std::chrono::minutes kLongestStep{30};

std::string extension(const BuildLock& lock) {
  const std::string folder = lock.path.substr(0, lock.path.rfind('/'));
  return folder.substr(folder.rfind('/') + 1);
}

// "3.11.2" -> "py311"
std::string python_folder(const std::string& version) {
  const std::vector<std::string> numbers = split(version, '.');
  return numbers.size() < 2 ? "" : "py" + numbers[0] + numbers[1];
}

// py31_cpu is not of Python 3.11, and py313t_cpu is of a 3.13.
bool is_of(const std::string& folder, const std::string& python) {
  if (!folder.starts_with(python)) return false;
  const char next = folder.size() == python.size() ? '_' : folder[python.size()];
  return next < '0' || next > '9';
}

}  // namespace

// An empty variable counts, as for torch: the folder is then the current one.
std::optional<ExtensionFolders> extension_folders(const std::map<std::string, std::string>& env) {
  const auto here = [](const std::string& path) { return path.empty() ? std::string(".") : path; };
  if (const auto it = env.find("TORCH_EXTENSIONS_DIR"); it != env.end()) return ExtensionFolders{here(it->second)};
  if (const auto it = env.find("XDG_CACHE_HOME"); it != env.end())
    return ExtensionFolders{here(it->second) + "/torch_extensions", true};
  if (const auto it = env.find("HOME"); it != env.end())
    return ExtensionFolders{it->second + "/.cache/torch_extensions", true};
  return std::nullopt;
}

bool is_batons(unsigned mode) { return (mode & 0100) != 0; }

bool is_left(const BuildLock& lock) { return !lock.held && (lock.all_seen || lock.quiet >= kLongestStep); }

bool is_waited_for(const BuildLock& lock, const PythonFacts& python, const std::string& source) {
  if (python.torch_file.empty() || source.empty()) return true;
  const std::string own = python_folder(python.version);
  const bool others = !lock.python.empty() && !own.empty() && !is_of(lock.python, own);
  return !others && source.find("FileBaton(") != std::string::npos;
}

std::string lock_found(const BuildLock& lock) {
  const std::string age = fmt::format("{} is {} old, and", lock.path, launcher::readable_duration(lock.age));
  if (lock.all_seen) return age + " no process builds there";
  return fmt::format("{} nothing has changed there for {}", age, launcher::readable_duration(lock.quiet));
}

std::string lock_cure(const BuildLock& lock) {
  return fmt::format(
      "a build that was killed has left it, and workers that need {} wait for it for ever; remove it: rm {}",
      extension(lock), shell_quoted(lock.path));
}

}  // namespace dtrain::cli
