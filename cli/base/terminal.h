#pragma once
// The terminal that this process writes to.
#include <unistd.h>

#include <cstddef>

namespace dtrain::cli {

// Columns for help on this descriptor: COLUMNS, else the terminal's, within 40 and 80 (layout.h).
std::size_t output_width(int fd = STDOUT_FILENO);

}  // namespace dtrain::cli
