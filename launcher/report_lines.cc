#include "launcher/report_lines.h"

#include <fmt/core.h>

#include <algorithm>

namespace dtrain::launcher {
namespace {

constexpr size_t kLineLimit = 400;  // bytes shown of one line of a worker

}  // namespace

std::string printable(std::string_view line) {
  std::string text;
  for (char c : line.substr(0, kLineLimit)) {
    auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\t') || byte == 0x7f) {
      text += fmt::format("\\x{:02x}", byte);
    } else {
      text += c;
    }
  }
  if (line.size() > kLineLimit) text += fmt::format(" ... ({} more bytes)", line.size() - kLineLimit);
  return text;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    size_t newline = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, newline - at));
    at = newline + 1;
  }
  return lines;
}

}  // namespace dtrain::launcher
