#pragma once
// The nodes that the host of a job has sent away: its user is told of each once, and again when the wait for nodes was
// in vain. A node that tries again and again is one. Pure.
#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace dtrain {

class Refusals {
 public:
  static constexpr std::size_t kMost = 16;  // lines that are told

  // The line that is to be told; empty: it was, or there have been too many.
  std::string add(const std::string& line) {
    if (std::find(lines_.begin(), lines_.end(), line) != lines_.end()) return "";
    if (lines_.size() == kMost) {
      more_ = true;
      return "";
    }
    lines_.push_back(line);
    return lines_.size() == kMost ? line + " (further ones are not reported)" : line;
  }

  bool empty() const { return lines_.empty(); }
  // For the end of a line that says why the wait is over: "; refused ...; refused ...", or empty.
  std::string summary() const {
    constexpr std::size_t kNamed = 3;
    std::string text;
    for (std::size_t i = 0; i < std::min(kNamed, lines_.size()); ++i) text += "; " + lines_[i];
    if (lines_.size() <= kNamed) return text;
    return text + "; and " + (more_ ? "many" : std::to_string(lines_.size() - kNamed)) + " more";
  }

 private:
  std::vector<std::string> lines_;
  bool more_ = false;
};

}  // namespace dtrain
