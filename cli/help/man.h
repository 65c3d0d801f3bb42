#pragma once
// The manual page dtrain(1), made from the tables of flags and commands. Pure.
#include <string>

namespace dtrain::cli {

// In roff's language for manual pages (man macros).
std::string man_page();

}  // namespace dtrain::cli
