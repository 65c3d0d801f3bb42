// Breaks help into lines.
#include "cli/base/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cli/base/parse_value.h"
#include "cli/base/text.h"

namespace dtrain::cli {

std::size_t help_width(std::string_view columns, std::size_t terminal) {
  auto number = parse_number(columns, 1, 100000);
  std::size_t width = number ? static_cast<std::size_t>(*number) : terminal > 0 ? terminal : kWidest;
  return std::clamp(width, kNarrowest, kWidest);
}

std::string paragraph(std::string_view text, std::size_t width, std::size_t indent) {
  std::string out;
  for (const std::string& line : wrapped(text, width - indent)) out += fmt::format("{:{}}{}\n", "", indent, line);
  return out;
}

std::string entry(std::string_view left, std::string_view text, std::size_t column, std::size_t width) {
  constexpr std::size_t kBelow = 6;
  std::string name = fmt::format("  {}", left);
  bool narrow = 2 * width < 5 * column;
  if (narrow) return name + "\n" + paragraph(text, width, kBelow);
  std::string out;
  if (name.size() + 2 > column) out = std::exchange(name, "") + "\n";
  for (const std::string& line : wrapped(text, width - column))
    out += fmt::format("{:<{}}{}\n", std::exchange(name, ""), column, line);
  return out;
}

}  // namespace dtrain::cli
