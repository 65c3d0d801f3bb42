#pragma once
// Bytes on their way out: appended at the end, taken from the front by whatever a socket accepts. Memory follows what
// is in it.
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace dtrain {

class ByteQueue {
 public:
  bool empty() const { return size() == 0; }
  std::size_t size() const { return bytes_.size() - taken_; }
  std::size_t memory() const { return bytes_.capacity(); }
  std::string_view front() const { return std::string_view(bytes_).substr(taken_); }

  void append(std::string_view bytes) { end().append(bytes); }

  // The last `left` of these bytes, without a copy if nothing else is in the queue.
  void adopt(std::string&& bytes, std::size_t left) {
    if (!empty()) return append(std::string_view(bytes).substr(bytes.size() - left));
    taken_ = bytes.size() - left;
    bytes_ = std::move(bytes);
  }

  // For those who write bytes themselves: only append to it.
  std::string& end() {
    // What has been taken is given up when it is the larger part, so that moving the rest costs each byte once.
    if (taken_ > 0 && taken_ >= size()) {
      bytes_.erase(0, taken_);
      taken_ = 0;
    }
    return bytes_;
  }

  void take(std::size_t count) {
    taken_ += count;
    if (taken_ < bytes_.size()) return;
    taken_ = 0;
    // Small ones are kept, since most queues fill again at once.
    constexpr std::size_t kKeptBytes = 4096;
    if (bytes_.capacity() > kKeptBytes) std::string().swap(bytes_);
    bytes_.clear();
  }

 private:
  std::string bytes_;
  std::size_t taken_ = 0;
};

}  // namespace dtrain
