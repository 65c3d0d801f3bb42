#include "launcher/terminal/terminal_line.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "launcher/terminal/wants_color.h"

namespace dtrain::launcher {

namespace {

constexpr std::string_view kName = "dtrain:";

// The words of a text; several that are one quoted piece of code count as one if they fit into a line.
std::vector<std::string> phrases(std::string_view text, size_t width) {
  std::istringstream words{std::string(text)};
  std::vector<std::string> out;
  std::vector<std::string> open;  // of a piece of code whose end has not come yet
  const auto odd = [](const std::string& word) { return std::count(word.begin(), word.end(), '`') % 2 == 1; };
  for (std::string word; words >> word;) {
    const bool was_open = !open.empty();
    open.push_back(word);
    if (was_open != odd(word)) continue;
    std::string whole;
    for (const std::string& part : open) whole += (whole.empty() ? "" : " ") + part;
    if (whole.size() <= width)
      out.push_back(whole);
    else
      out.insert(out.end(), open.begin(), open.end());
    open.clear();
  }
  out.insert(out.end(), open.begin(), open.end());
  return out;
}

}  // namespace

std::vector<std::string> wrapped(std::string_view text, size_t width) {
  std::vector<std::string> lines;
  std::string line;
  for (const std::string& word : phrases(text, width)) {
    if (!line.empty() && line.size() + 1 + word.size() > width) lines.push_back(std::exchange(line, {}));
    line += (line.empty() ? "" : " ") + word;
  }
  if (!line.empty()) lines.push_back(line);
  return lines;
}

std::string terminal_line(std::string_view text, size_t columns) {
  constexpr size_t kIndent = 2;
  constexpr size_t kNarrowest = 20;
  if (columns < kNarrowest || text.size() <= columns) return std::string(text);
  std::string out;
  for (const std::string& line : wrapped(text, columns - kIndent)) out += (out.empty() ? "" : "\n  ") + line;
  return out;
}

std::string own_line(std::string_view text) {
  winsize size{};
  const size_t columns = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
  return terminal_line(std::string(kName) + " " + std::string(text), columns);
}

std::string own_error(std::string_view text) {
  const std::string line = own_line(text);
  return wants_color(Color::automatic, STDERR_FILENO) ? colored("1;31", kName) + line.substr(kName.size()) : line;
}

}  // namespace dtrain::launcher
