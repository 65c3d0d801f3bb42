#pragma once
// TailBuffer keeps the end of a stream: the last 64 KiB, shown as the last lines. Pure.
#include <string>
#include <string_view>
#include <vector>

namespace dtrain::launcher {

class TailBuffer {
 public:
  static constexpr size_t kBytes = 64 * 1024;
  static constexpr size_t kLines = 20;

  // Take the next bytes of the stream.
  void add(std::string_view bytes) {
    if (bytes.size() > kBytes) {
      cut_ = true;
      kept_.clear();
      bytes.remove_prefix(bytes.size() - kBytes);
    }
    kept_ += bytes;
    // Trimmed at twice the size, so that each byte is moved at most once on average.
    if (kept_.size() > 2 * kBytes) {
      cut_ = true;
      kept_.erase(0, kept_.size() - kBytes);
    }
  }

  void clear() {
    kept_ = std::string();
    cut_ = false;
  }

  bool empty() const { return kept_.empty(); }

  // The last lines, at most `most` and kBytes, without their ends. Of a line with "\r" in it (a progress bar) only its
  // last state; of C++ frames and registered kernels, which torch lists after an error's message, only how many lines
  // they were. What does not fit is left out at the front, line by line.
  std::vector<std::string> lines(size_t most = kLines) const;

 private:
  std::string kept_;
  bool cut_ = false;  // kept_ does not begin at the beginning of the stream
};

}  // namespace dtrain::launcher
