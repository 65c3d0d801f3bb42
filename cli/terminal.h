#pragma once
// The terminal that this process writes to.
#include <cstddef>

namespace dtrain::cli {

// Columns for help on standard output: COLUMNS, else the terminal's, within 40 and 80 (layout.h).
std::size_t output_width();

}  // namespace dtrain::cli
