#pragma once
// The frames in what comes from another host, in pieces of any size. Pure: no connection, threads or clock. Payload
// that has somewhere to go can be read straight to there.
#include <array>
#include <cstddef>
#include <span>

#include "strategies/comm/messages/p2p_core.h"

namespace dtrain {

// Larger than those of rings: each frame may wake somebody, an offer costs the way there and back, and so does every
// quarter of a window.
inline constexpr P2pCore::Limits kLimitsBetweenHosts{256 * 1024, 1024 * 1024, 1024 * 1024};

class P2pInbox {
 public:
  explicit P2pInbox(int from) : from_(from) {}

  // Where the next bytes belong. Empty: to be looked at first. Good until take().
  std::span<std::byte> missing() const { return missing_; }
  // The next bytes came: the first `placed` of them are in missing() already, then those of `come`. False: they are no
  // frames, or not ones that somebody asked for; nothing more may be taken.
  [[nodiscard]] bool take(P2pCore& core, std::size_t placed, std::span<const std::byte> come);

 private:
  bool begin(P2pCore& core);
  void placed(P2pCore& core, std::size_t bytes);

  const int from_;
  std::array<std::byte, sizeof(Frame)> head_{};  // of a frame that has begun to come
  std::size_t head_bytes_ = 0;                   // that are there
  std::span<std::byte> missing_;
};

}  // namespace dtrain
