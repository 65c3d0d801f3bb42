#pragma once
// Messages to a rank of this host and back, through two rings in the group's memory.
#include "strategies/comm/memory/shm_wait.h"
#include "strategies/comm/messages/p2p_bell.h"
#include "strategies/comm/messages/p2p_link.h"
#include "strategies/comm/messages/shm_ring.h"

namespace dtrain {

class P2pRingLink final : public P2pLink {
 public:
  P2pRingLink(const ShmSegment& segment, const PeerWatch& watch, const P2pBell& bell, int rank, int peer)
      : block_(segment.rank(peer)),
        in_block_(segment.pair(peer, rank)),
        out_block_(segment.pair(rank, peer)),
        in_(in_block_, segment.ring(peer, rank), segment.ring_bytes()),
        out_(out_block_, segment.ring(rank, peer), segment.ring_bytes()),
        watch_(watch),
        bell_(bell),
        peer_(peer) {}

  bool take(P2pCore& core) override {
    // Cleared before, and asked again after, the reads: a wish of meanwhile is not lost.
    const auto asked = [this] { return in_block_.wants_room.load(std::memory_order_seq_cst) != 0; };
    const bool asked_before = asked();
    if (asked_before) in_block_.wants_room.store(0, std::memory_order_seq_cst);
    bool sound = true;
    const auto give = [&](const Frame& frame, std::span<const std::byte> payload) {
      sound = sound && core.take(peer_, frame, payload);
    };
    int taken = 0;
    while (taken < kBurst && in_.read(give)) ++taken;
    if (asked_before || asked()) bell_.ring(peer_);
    if (!sound) throw std::runtime_error("the ring holds something that is not a frame");
    return taken > 0;
  }

  bool send(P2pCore& core) override {
    int written = 0;
    for (bool asked = false; written < kBurst && core.has_next(peer_);) {
      const auto room = out_.room();
      const auto next = room ? core.next(peer_, *room) : std::nullopt;
      if (next) {
        out_.write(next->frame, next->payload);
        core.gone(*next);
        bell_.ring(peer_);
        ++written;
        asked = false;
      } else if (asked) {
        break;
      } else {
        out_block_.wants_room.store(1, std::memory_order_seq_cst);
        asked = true;
      }
    }
    return written > 0;
  }

  bool send_whole(P2pCore& core, P2pCore::Id id, const P2pCore::Label& label,
                  std::span<const std::byte> data) override {
    const auto room = out_.room();
    const auto frame = room ? core.whole(id, peer_, label, data, *room) : std::nullopt;
    if (!frame) return false;
    out_.write(frame->frame, data);
    bell_.ring(peer_);
    return true;
  }

  bool comes_at_once(std::size_t bytes) const override { return bytes <= in_.whole_bytes(); }
  bool has_some() const override { return in_.has_some(); }

  Fate fate() override {
    const bool ended = watch_.has_ended(peer_);  // first: what it did last is looked at after that
    if (block_.left.load(std::memory_order_acquire) != 0) return Fate::left;
    return ended ? Fate::died : Fate::here;
  }

  std::string why_late() const override { return dtrain::why_late(block_.pid); }

 private:
  const RankBlock& block_;
  PairBlock& in_block_;
  PairBlock& out_block_;
  ShmRing in_, out_;
  const PeerWatch& watch_;
  const P2pBell& bell_;
  const int peer_;
};

}  // namespace dtrain
