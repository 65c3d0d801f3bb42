#pragma once
// What is known of a path, and where a program is found.
#include <functional>
#include <string>

#include "rendezvous/base/result.h"

namespace dtrain::cli {

// Links are followed.
struct FileFacts {
  enum class Kind { missing, file, folder, other } kind = Kind::missing;
  bool readable = false;
  bool writable = false;
  bool executable = false;   // this process may execute it
  bool execute_bit = false;  // some x bit is set, whether or not it helps this process
  std::string head = {};     // a file's first 4096 bytes, if readable
  unsigned mode = 0;         // its permissions
};

// Of the system's files.
FileFacts file_facts(const std::string& path);

// What a regular file has, 1 MiB at most.
Result<std::string> text_file(const std::string& path);

// Gives the facts of a path: file_facts(), or what a test made up.
using Probe = std::function<FileFacts(const std::string& path)>;

// The first executable file of this name in the folders of `search_path`, or an empty string. A name with a slash is
// its own answer.
std::string find_in_path(const std::string& name, const std::string& search_path, const Probe& probe);

}  // namespace dtrain::cli
