#pragma once
// Block: a run of output bytes on their way to one target, with a note of whose bytes they are, so that what cannot be
// written is counted exactly.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

namespace dtrain::launcher {

using StreamId = int;

// [begin, payload) was added by dtrain (a prefix); [payload, end) came from the stream.
struct Segment {
  uint32_t begin;
  uint32_t payload;
  uint32_t end;
  StreamId stream;
};

class Block {
 public:
  // Append `prefix` and `payload` of `stream`.
  void append(std::string_view prefix, std::string_view payload, StreamId stream) {
    auto begin = static_cast<uint32_t>(size_);
    char* to = grow(prefix.size() + payload.size());
    if (!prefix.empty()) std::memcpy(to, prefix.data(), prefix.size());
    if (!payload.empty()) std::memcpy(to + prefix.size(), payload.data(), payload.size());
    auto from = static_cast<uint32_t>(begin + prefix.size());
    bool extends = prefix.empty() && !segments_.empty() && segments_.back().stream == stream;
    if (extends) {
      segments_.back().end = static_cast<uint32_t>(size_);
    } else {
      segments_.push_back({begin, from, static_cast<uint32_t>(size_), stream});
    }
  }

  void append(const Block& other) {
    auto shift = static_cast<uint32_t>(size_);
    std::memcpy(grow(other.size_), other.data_.get(), other.size_);
    for (Segment s : other.segments_) {
      segments_.push_back({s.begin + shift, s.payload + shift, s.end + shift, s.stream});
    }
  }

  void clear() {
    size_ = 0;
    segments_.clear();
  }

  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  const char* data() const { return data_.get(); }
  const std::vector<Segment>& segments() const { return segments_; }
  // Memory in use, for the bound of a queue.
  size_t cost() const { return size_ + segments_.size() * sizeof(Segment); }

 private:
  char* grow(size_t more) {
    if (size_ + more > capacity_) {
      size_t capacity = capacity_ == 0 ? 4096 : capacity_;
      while (capacity < size_ + more) capacity *= 2;
      auto bigger = std::make_unique_for_overwrite<char[]>(capacity);
      if (size_ > 0) std::memcpy(bigger.get(), data_.get(), size_);
      data_ = std::move(bigger);
      capacity_ = capacity;
    }
    char* to = data_.get() + size_;
    size_ += more;
    return to;
  }

  std::unique_ptr<char[]> data_;
  size_t size_ = 0;
  size_t capacity_ = 0;
  std::vector<Segment> segments_;
};

}  // namespace dtrain::launcher
