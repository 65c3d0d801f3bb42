#pragma once
// What every error and note of ours is: one line, harmless for a terminal.
#include <algorithm>
#include <string>
#include <string_view>

#include "rendezvous/base/check.h"

namespace dtrain {

// A tab is none: printable() lets it stay.
inline bool has_control_bytes(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](unsigned char c) { return (c < 0x20 && c != '\t') || c == 0x7f; });
}

inline void check_one_line(const std::string& text) {
  DT_CHECK(!text.empty() && !has_control_bytes(text), ("it is one printable line: " + text).c_str());
}

}  // namespace dtrain
