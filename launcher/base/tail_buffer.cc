#include "launcher/base/tail_buffer.h"

#include <fmt/core.h>

#include <algorithm>

namespace dtrain::launcher {
namespace {

// What a terminal shows of the line in the end.
std::string_view last_state(std::string_view line) {
  while (line.ends_with('\r')) line.remove_suffix(1);
  size_t carriage = line.rfind('\r');
  return carriage == std::string_view::npos ? line : line.substr(carriage + 1);
}

constexpr size_t kFolded = 3;  // so many in a row and more

// A line of the lists that torch prints below the message of an error.
bool is_listed(std::string_view line) {
  const size_t text = line.find("frame #");
  // "[rank1]: frame #0: ..."
  if (text != line.npos && (text == 0 || line.substr(0, text).find_first_not_of(' ') == line.npos ||
                            (line.starts_with("[rank") && line.substr(0, text).ends_with("]: "))))
    return true;
  return line.find(": registered at ") != line.npos || line.find(": fallthrough registered at ") != line.npos;
}

// The last lines of `text`, the last one first.
class LinesBackwards {
 public:
  explicit LinesBackwards(std::string_view text) : rest_(text) {}
  bool over() const { return over_; }
  std::string_view next() {
    const size_t newline = rest_.rfind('\n');
    const std::string_view line = last_state(newline == rest_.npos ? rest_ : rest_.substr(newline + 1));
    over_ = newline == rest_.npos;
    if (!over_) rest_.remove_suffix(rest_.size() - newline);
    return line;
  }

 private:
  std::string_view rest_;
  bool over_ = false;
};

// A run of listed lines, the last one first, as what is shown of it.
void add_run(std::vector<std::string>& lines, std::vector<std::string>& run) {
  if (run.size() >= kFolded) run = {fmt::format("... ({} lines of torch's list)", run.size())};
  lines.insert(lines.end(), run.begin(), run.end());
  run.clear();
}

}  // namespace

std::vector<std::string> TailBuffer::lines(size_t most) const {
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

  std::vector<std::string> result, run;
  for (LinesBackwards lines(rest); !lines.over() && result.size() < most;) {
    const std::string_view line = lines.next();
    if (!is_listed(line)) add_run(result, run);
    if (is_listed(line))
      run.emplace_back(line);
    else if (result.size() < most)
      result.emplace_back(line);
  }
  add_run(result, run);
  if (result.size() > most) result.resize(most);
  std::reverse(result.begin(), result.end());
  return result;
}

}  // namespace dtrain::launcher
