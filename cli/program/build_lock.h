#pragma once
// A lock that is left where torch.utils.cpp_extension builds an extension when a worker first needs it. Older torch
// takes the file's being there for a build that runs (torch.utils.file_baton, in 2.11), and waits without a word: for
// ever if the build was killed. Newer torch (2.15) lets the kernel hold the lock, and leaves the file there. Pure.
#include <chrono>
#include <map>
#include <optional>
#include <string>

#include "cli/program/python_facts.h"

namespace dtrain::cli {

// Each extension has a folder of its own here, or in a folder for each Python and torch ("py311_cu126").
struct ExtensionFolders {
  std::string path;
  bool by_python = false;
};
// Where the torch of workers with these variables builds; nothing: they do not say it.
std::optional<ExtensionFolders> extension_folders(const std::map<std::string, std::string>& env);

struct BuildLock {
  std::string path;    // ".../py311_cpu/fused_adam/lock"
  std::string python;  // "py311_cpu"; empty: every Python builds here
  std::chrono::seconds age{};
  std::chrono::seconds quiet{};  // since something has changed in the folder
  bool held = false;             // a process has the file open, or works in the folder
  bool all_seen = false;         // a process that has it open could not have been missed
};

// Whether a file `lock` with these permission bits is a FileBaton's. It asks for 0777, and newer torch for 0666.
bool is_batons(unsigned mode);

// Whether whoever made it is gone. A builder has the file open from the moment in which it is made until it is removed.
// Where that process may be on another host, in another container or another user's, only time tells: a build writes
// an object file or a log into the folder after each file that it compiles.
bool is_left(const BuildLock& lock);

// Whether the workers' torch would wait for it. `source`: its utils/cpp_extension.py; empty: not known, which counts as
// yes, since a program may bring another Python than the one that was asked.
bool is_waited_for(const BuildLock& lock, const PythonFacts& python, const std::string& source);

// "/…/fused_adam/lock is 3 h 0 min old, and no process builds there", and what to do about it.
std::string lock_found(const BuildLock& lock);
std::string lock_cure(const BuildLock& lock);

}  // namespace dtrain::cli
