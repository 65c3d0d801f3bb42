// Breaks help into lines.
#include "cli/base/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cli/base/parse_value.h"
#include "cli/base/text.h"
#include "launcher/terminal/terminal_line.h"
#include "launcher/terminal/wants_color.h"

namespace dtrain::cli {

std::size_t help_width(std::string_view columns, std::size_t terminal) {
  auto number = parse_number(columns, 1, 100000);
  std::size_t width = number ? static_cast<std::size_t>(*number) : terminal > 0 ? terminal : kWidest;
  return std::clamp(width, kNarrowest, kWidest);
}

std::string paragraph(std::string_view text, std::size_t width, std::size_t indent) {
  std::string out;
  for (const std::string& line : launcher::wrapped(text, width - indent))
    out += fmt::format("{:{}}{}\n", "", indent, line);
  return out;
}

std::string entry(std::string_view left, std::string_view text, std::size_t column, std::size_t width) {
  constexpr std::size_t kBelow = 6;
  std::string name = fmt::format("  {}", left);
  bool narrow = 2 * width < 5 * column;
  if (narrow) return name + "\n" + paragraph(text, width, kBelow);
  std::string out;
  if (name.size() + 2 > column) out = std::exchange(name, "") + "\n";
  for (const std::string& line : launcher::wrapped(text, width - column))
    out += fmt::format("{:<{}}{}\n", std::exchange(name, ""), column, line);
  return out;
}

namespace {

constexpr std::string_view kHeading = "1;32", kName = "36";

std::string painted_line(std::string_view line) {
  constexpr std::string_view kUsage = "Usage:";
  if (line.starts_with(kUsage)) return launcher::colored(kHeading, kUsage) + std::string(line.substr(kUsage.size()));
  if (line.ends_with(':') && !line.starts_with(' ')) return launcher::colored(kHeading, line);
  const std::size_t begin = line.starts_with("  ") ? 2 : 0;
  const std::string_view name = line.substr(begin, line.find("  ", begin) - begin);
  const bool beside_text = begin == 2 && !name.empty() && begin + name.size() < line.size();
  const bool is_name = beside_text || name.starts_with('-') || (begin == 2 && name.starts_with("dtrain "));
  if (!is_name) return std::string(line);
  return std::string(begin, ' ') + launcher::colored(kName, name) + std::string(line.substr(begin + name.size()));
}

}  // namespace

std::string painted(std::string_view help) {
  std::string out;
  while (!help.empty()) {
    const std::size_t end = std::min(help.find('\n'), help.size());
    out += painted_line(help.substr(0, end));
    if (end < help.size()) out += '\n';
    help.remove_prefix(std::min(end + 1, help.size()));
  }
  return out;
}

}  // namespace dtrain::cli
