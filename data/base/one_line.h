#pragma once
// Text of files and of users within a message.
#include <algorithm>
#include <string>

namespace dtrain::data {

// What would steer a terminal is shown as '?'.
inline std::string one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return text;
}

}  // namespace dtrain::data
