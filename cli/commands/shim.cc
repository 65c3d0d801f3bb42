// The folder that makes torchrun dtrain, and the command that is run with it.
// Tested by test/process/cli/shim_test.py, test/process/torchrun/shim_test.py.
#include "cli/commands/shim.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "cli/base/fail.h"
#include "cli/base/own_file.h"
#include "cli/base/usage_error.h"
#include "cli/commands/torchrun_shim.h"
#include "launcher/engines/meeting_place.h"
#include "rendezvous/base/printable.h"

namespace dtrain::cli {
namespace {

namespace fs = std::filesystem;

// What the folder has. Everything else in it is Python's.
struct ShimFile {
  const char* name;
  std::string_view text;
};
constexpr ShimFile kFiles[] = {{"python/sitecustomize.py", kTorchrunSite},
                               {"python/_dtrain_shim.py", kTorchrunShim},
                               {"python/_dtrain_deepspeed.py", kDeepspeedShim},
                               {"python/_dtrain_composer.py", kComposerShim}};
constexpr const char* kLink = "bin/torchrun";
constexpr const char* kUsualPath = "/usr/local/bin:/usr/bin:/bin";

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Result<fs::path> cache_folder() {
  if (const std::string chosen = variable("XDG_CACHE_HOME"); chosen.starts_with('/'))
    return fs::path(chosen) / "dtrain";
  if (const std::string home = variable("HOME"); home.starts_with('/')) return fs::path(home) / ".cache/dtrain";
  return usage_error("neither HOME nor XDG_CACHE_HOME says where the shim's files can be");
}

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Python executes what is there.
Result<void> check_own(const fs::path& folder) {
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0) return {};
  const bool foreign = S_ISDIR(status.st_mode) && (status.st_mode & (S_IWGRP | S_IWOTH)) != 0;
  if (status.st_uid == ::geteuid() && !foreign) return {};
  return usage_error(
      fmt::format("{} is not yours alone, and Python would execute what is there; remove it, or name "
                  "another place with XDG_CACHE_HOME",
                  printable(folder.native())));
}

bool is_whole(const fs::path& folder, const fs::path& self) {
  std::error_code error;
  if (fs::read_symlink(folder / kLink, error) != self) return false;
  for (const ShimFile& file : kFiles)
    if (text_of(folder / file.name) != file.text) return false;
  return true;
}

Result<void> fill(const fs::path& folder, const fs::path& self) {
  std::error_code error;
  for (const char* part : {"bin", "python"})
    if (!fs::create_directory(folder / part, error))
      return system_error("cannot make a folder in " + folder.native(), error.value());
  fs::create_symlink(self, folder / kLink, error);
  if (error) return system_error("cannot make a link in " + folder.native(), error.value());
  for (const ShimFile& file : kFiles) {
    std::ofstream out(folder / file.name, std::ios::binary);
    out << file.text;
    out.close();
    if (!out) return system_error("cannot write " + (folder / file.name).native(), errno);
  }
  return {};
}

// Made beside its place, and moved there as a whole. Another dtrain may do the same at the same time.
Result<void> make(const fs::path& folder, const fs::path& self) {
  std::error_code error;
  std::string draft = folder.native() + ".XXXXXX";
  if (::mkdtemp(draft.data()) == nullptr)
    return system_error("cannot make a folder in " + folder.parent_path().native(), errno);
  auto done = fill(draft, self);
  if (done) {
    fs::rename(draft, folder, error);
    // What is damaged changes places with the draft, so that a Python of another command finds one or the other.
    if (error && !is_whole(folder, self) &&
        ::renameat2(AT_FDCWD, draft.c_str(), AT_FDCWD, folder.c_str(), RENAME_EXCHANGE) != 0) {
      fs::remove_all(folder, error);  // a file system without exchange
      fs::rename(draft, folder, error);
      if (error && !is_whole(folder, self)) done = system_error("cannot make " + folder.native(), error.value());
    }
  }
  fs::remove_all(draft, error);
  return done;
}

Result<fs::path> shim_folder() {
  const auto found = own_file();
  if (!found) return found.error();
  const fs::path& self = *found;
  const auto cache = cache_folder();
  if (!cache) return cache.error();
  // One for each dtrain, and for what it would write.
  std::uint64_t hash = launcher::hash_of(self.native());
  for (const ShimFile& file : kFiles) hash = launcher::hash_of(file.text, hash);
  fs::path folder = *cache / fmt::format("shim-{:016x}", hash);
  if (folder.native().find(':') != std::string::npos)
    return usage_error(fmt::format("{}: a colon in it would divide PATH; XDG_CACHE_HOME names another place",
                                   printable(cache->native())));
  std::error_code error;
  fs::create_directories(cache->parent_path(), error);
  if (const int failed = ::mkdir(cache->c_str(), 0700) == 0 ? 0 : errno;
      failed != 0 && (failed != EEXIST || !fs::is_directory(*cache, error)))
    return system_error(fmt::format("cannot make {} (XDG_CACHE_HOME names another place)", printable(cache->native())),
                        failed);
  for (const fs::path& each : {*cache, folder})
    if (auto done = check_own(each); !done) return done.error();
  if (!is_whole(folder, self))
    if (auto done = make(folder, self); !done) return done.error();
  return folder;
}

Error cannot_become(const std::string& command, int error) {
  if (error == ENOENT) return {ErrorKind::not_found, printable(command) + ": not found"};
  return {ErrorKind::not_executable, fmt::format("{}: {}", printable(command), std::generic_category().message(error))};
}

// A list such as PATH that begins with this folder. An empty element would mean the working folder, so none is made.
std::string list_with(const std::string& folder, const std::string& list) {
  if (list == folder || list.starts_with(folder + ":")) return list;
  return folder + (list.empty() ? "" : ":") + list;
}

}  // namespace

int shim_command(const std::vector<std::string>& words) {
  const std::vector<std::string> command(words.begin() + (!words.empty() && words[0] == "--" ? 1 : 0), words.end());
  if (command.empty()) return fail(usage_error("no command given: dtrain shim COMMAND [its arguments]"));
  const auto folder = shim_folder();
  if (!folder) return fail(folder.error());
  const std::string path = variable("PATH");
  ::setenv("PATH", list_with((*folder / "bin").native(), path.empty() ? kUsualPath : path).c_str(), 1);
  ::setenv("PYTHONPATH", list_with((*folder / "python").native(), variable("PYTHONPATH")).c_str(), 1);
  std::vector<char*> argv;
  argv.reserve(command.size() + 1);
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  return fail(cannot_become(command[0], errno));
}

}  // namespace dtrain::cli
