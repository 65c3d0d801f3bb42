#include "launcher/evidence/report_lines.h"

#include <fmt/core.h>

#include <algorithm>

#include "rendezvous/base/printable.h"

namespace dtrain::launcher {
namespace {

constexpr size_t kLineLimit = 400;  // bytes shown of one line of a worker
constexpr size_t kLongestText = 4000;

}  // namespace

std::string report_line(std::string_view line) {
  const std::string_view shown = first_characters(line, kLineLimit);
  std::string text = printable(shown, kLineLimit);
  if (shown.size() < line.size()) text += fmt::format(" ... ({} more bytes)", line.size() - shown.size());
  return text;
}

std::string plain_line(std::string_view text) { return printable(text, kLongestText); }
std::string first_line(std::string_view text) { return std::string(text.substr(0, text.find('\n'))); }

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
