#pragma once
// This machine's name as messages and prefixes show it.
#include <string>

namespace dtrain::launcher {

// Up to the first dot.
std::string short_hostname();

}  // namespace dtrain::launcher
