#pragma once
// Whole small files.
#include <cstddef>
#include <string>

#include "rendezvous/base/result.h"

namespace dtrain::launcher {

// The first 256 KiB of a text file, as in /proc and /sys; empty if it cannot be read.
std::string read_small_file(const std::string& path);

// A regular file that others may have written, at most limit + 1 bytes: one more tells that it is larger. Does not wait
// where a FIFO lies instead. Errors: their reason alone; errno_value is ENOENT where there is nothing.
Result<std::string> read_regular_file(const std::string& path, size_t limit);

// The same of a file that was found in a folder where others may have laid a link, which is refused.
Result<std::string> read_found_file(const std::string& path, size_t limit);

}  // namespace dtrain::launcher
