#include "launcher/tail_buffer.h"

#include <algorithm>

namespace dtrain::launcher {
namespace {

// What a terminal shows of the line in the end.
std::string_view last_state(std::string_view line) {
  while (line.ends_with('\r')) line.remove_suffix(1);
  size_t carriage = line.rfind('\r');
  return carriage == std::string_view::npos ? line : line.substr(carriage + 1);
}

}  // namespace

std::vector<std::string> TailBuffer::lines() const {
  std::string_view rest(kept_);
  bool begins_within_line = cut_ || rest.size() > kBytes;
  if (rest.size() > kBytes) rest.remove_prefix(rest.size() - kBytes);
  if (begins_within_line) {
    size_t newline = rest.find('\n');
    if (newline != std::string_view::npos && newline + 1 < rest.size()) rest.remove_prefix(newline + 1);
  }
  if (rest.ends_with('\n'))
    rest.remove_suffix(1);
  else if (rest.empty())
    return {};

  std::vector<std::string> result;
  for (;;) {
    size_t newline = rest.rfind('\n');
    result.emplace_back(last_state(newline == std::string_view::npos ? rest : rest.substr(newline + 1)));
    if (newline == std::string_view::npos || result.size() == kLines) break;
    rest.remove_suffix(rest.size() - newline);
  }
  std::reverse(result.begin(), result.end());
  return result;
}

}  // namespace dtrain::launcher
