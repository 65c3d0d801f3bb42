#pragma once
// Whole small text files, as in /proc and /sys.
#include <string>

namespace dtrain::launcher {

// The first 256 KiB of a file; empty if it cannot be read.
std::string read_small_file(const std::string& path);

}  // namespace dtrain::launcher
