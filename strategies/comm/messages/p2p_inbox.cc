// See p2p_inbox.h.
#include "strategies/comm/messages/p2p_inbox.h"

#include <algorithm>
#include <cstring>

namespace dtrain {
namespace {

// Sizes that the core relies on: between hosts nothing else vouches for them.
bool is_sound(const Frame& frame) {
  if (frame.magic != Frame::kMagic || frame.text[sizeof frame.text - 1] != '\0') return false;
  switch (frame.kind) {
    case Frame::Kind::whole:
      return frame.payload == frame.bytes && frame.payload <= kLimitsBetweenHosts.whole_bytes;
    case Frame::Kind::part:
      return frame.payload <= kLimitsBetweenHosts.part_bytes;
    case Frame::Kind::offer:
    case Frame::Kind::grant:
    case Frame::Kind::credit:
      return frame.payload == 0;
    case Frame::Kind::skip:
      break;
  }
  return false;
}

}  // namespace

bool P2pInbox::take(P2pCore& core, std::size_t placed_bytes, std::span<const std::byte> come) {
  if (placed_bytes > 0) placed(core, placed_bytes);
  while (!come.empty()) {
    const bool head = missing_.empty();
    const auto into = head ? std::span(head_).subspan(head_bytes_) : missing_;
    const std::size_t bytes = std::min(come.size(), into.size());
    std::memcpy(into.data(), come.data(), bytes);
    come = come.subspan(bytes);
    if (!head) {
      placed(core, bytes);
    } else if (head_bytes_ += bytes; head_bytes_ == head_.size() && !begin(core)) {
      return false;
    }
  }
  return true;
}

bool P2pInbox::begin(P2pCore& core) {
  Frame frame;
  std::memcpy(&frame, head_.data(), sizeof frame);
  head_bytes_ = 0;
  const auto into = is_sound(frame) ? core.begin(from_, frame) : std::nullopt;
  if (!into) return false;
  missing_ = *into;
  if (missing_.empty()) core.took(from_);
  return true;
}

void P2pInbox::placed(P2pCore& core, std::size_t bytes) {
  missing_ = missing_.subspan(bytes);
  if (missing_.empty()) core.took(from_);
}

}  // namespace dtrain
