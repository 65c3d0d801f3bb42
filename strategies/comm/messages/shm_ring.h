#pragma once
// A ring of frames in shared memory, from one rank to another: one process writes, the other reads, either may be
// killed at any instruction. A frame is there when `written` says so, and lies in one piece: where what is left of the
// ring's end is short, a frame that says "skip" fills it.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <span>

#include "strategies/comm/memory/shm_segment.h"
#include "strategies/comm/messages/p2p_wire.h"

namespace dtrain {

class ShmRing {
 public:
  ShmRing(PairBlock& block, std::byte* bytes, std::size_t size) : block_(&block), bytes_(bytes), size_(size) {}

  // What every frame finds in one piece, sooner or later.
  std::size_t whole_bytes() const { return std::min<std::size_t>(16 * 1024, size_ / 4); }

  // Of the writer: how much payload a frame may have now; none: there is no room for a frame.
  std::optional<std::size_t> room() const {
    const std::uint64_t read = block_->read.load(std::memory_order_seq_cst);  // see wants_room
    const auto free = size_ - static_cast<std::size_t>(block_->written.load(std::memory_order_relaxed) - read);
    const std::size_t skip = skipped();
    if (free < skip + sizeof(Frame)) return std::nullopt;
    return std::min(free - skip, size_ - (skip == 0 ? place() : 0)) - sizeof(Frame);
  }

  // Of the writer. There must be room.
  void write(const Frame& frame, std::span<const std::byte> payload) {
    const std::size_t skip = skipped();
    if (skip > 0) {
      const Frame filler;
      std::memcpy(bytes_ + place(), &filler, sizeof(filler));
    }
    std::byte* to = bytes_ + (skip > 0 ? 0 : place());
    std::memcpy(to, &frame, sizeof(frame));
    if (!payload.empty()) std::memcpy(to + sizeof(frame), payload.data(), payload.size());
    const std::uint64_t written = block_->written.load(std::memory_order_relaxed);
    block_->written.store(written + skip + taken_by(payload.size()), std::memory_order_release);
  }

  // Of the reader: whether read() would find a frame.
  bool has_some() const {
    return block_->written.load(std::memory_order_acquire) != block_->read.load(std::memory_order_relaxed);
  }

  // Of the reader: take(frame, payload) for the next one, if there is one.
  template <class Take>
  bool read(Take take) {
    const std::uint64_t written = block_->written.load(std::memory_order_acquire);
    std::uint64_t at = block_->read.load(std::memory_order_relaxed);
    if (at == written) return false;
    Frame frame = frame_at(at);
    if (frame.kind == Frame::Kind::skip) {
      at += size_ - at % size_;
      frame = frame_at(at);
    }
    take(frame, std::span<const std::byte>(bytes_ + at % size_ + sizeof(frame), frame.payload));
    block_->read.store(at + taken_by(frame.payload), std::memory_order_seq_cst);
    return true;
  }

 private:
  static std::size_t taken_by(std::size_t payload) {
    return (sizeof(Frame) + payload + sizeof(Frame) - 1) / sizeof(Frame) * sizeof(Frame);
  }
  std::size_t place() const {
    return static_cast<std::size_t>(block_->written.load(std::memory_order_relaxed) % size_);
  }
  // How much of the end the next frame leaves out; the same before and after the reader moves.
  std::size_t skipped() const {
    const std::size_t end = size_ - place();
    return end < taken_by(whole_bytes()) ? end : 0;
  }
  Frame frame_at(std::uint64_t at) const {
    Frame frame;
    std::memcpy(&frame, bytes_ + at % size_, sizeof(frame));
    return frame;
  }

  PairBlock* block_;
  std::byte* bytes_;
  std::size_t size_;
};

}  // namespace dtrain
