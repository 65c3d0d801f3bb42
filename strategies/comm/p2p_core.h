#pragma once
// Which message goes into which receive: one rank's side of point-to-point. Pure: no shared memory, connections,
// threads or clock; it copies bytes between the callers' memory and what it is given.
//
// A message belongs to the first receive called that takes its sender and tag; a receive gets the first message there
// is for it, whichever rank it may take it from. Messages of one sender with one tag keep their order.
//
// The receiver keeps small messages that nobody asked for yet, `window` bytes of each sender at most; what is beyond it
// waits at its sender. Of other messages it keeps the offer, as many as the senders have operations pending.
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "strategies/comm/p2p_wire.h"

namespace dtrain {

class P2pCore {
 public:
  struct Limits {
    std::size_t whole_bytes = 4096;  // a message up to here goes without being asked for
    std::size_t part_bytes = 64 * 1024;
    std::uint64_t window = 256 * 1024;
  };
  // What a call says of its message, for the other side to compare with.
  struct Label {
    int tag = 0;
    std::uint8_t type = 0;
    std::string text;  // type and shape, for people
  };
  using Id = std::uint64_t;  // of an operation: later ones have larger numbers
  static constexpr int kAny = -1;

  P2pCore(int ranks, const Limits& limits) : limits_(limits), peers_(static_cast<std::size_t>(ranks)) {}

  // The memory stays the caller's and in place until the operation is finished.
  void send(Id id, int to, const Label& label, std::span<const std::byte> data);
  void receive(Id id, int from, const Label& label, std::span<std::byte> into);

  struct Outgoing {
    Frame frame;
    std::span<const std::byte> payload;  // the sender's memory: copy it before finished()
  };
  bool has_next(int to) const;
  // The next frame for `to`, with `room` bytes of payload at most; none if it needs more room. A frame that was handed
  // out counts as sent.
  std::optional<Outgoing> next(int to, std::size_t room);

  // A frame came. In the order in which they were sent. False: it grants what was not offered, so it is none of ours.
  [[nodiscard]] bool take(int from, const Frame& frame, std::span<const std::byte> payload);

  struct Finished {
    Id id;
    int peer;
    std::string misfit;  // not empty: the message is of another type or size
  };
  // Since the last call.
  std::vector<Finished> finished() { return std::exchange(finished_, {}); }

  // The first operation that cannot end without this rank; with kAny, one that any rank could end.
  std::optional<Id> waits_for(int peer) const;

 private:
  struct Send {
    int to;
    Label label;
    std::span<const std::byte> data;
    bool offered = false;  // and not granted yet
  };
  struct Receive {
    int from;  // kAny until it has a message
    Label label;
    std::span<std::byte> into;
    std::size_t got = 0;
  };
  struct Arrived {
    std::uint64_t order;
    Frame frame;
    std::vector<std::byte> payload;
  };
  struct Saying {
    Frame::Kind kind;
    Id send, receive;
  };
  struct Stream {
    Id send, receive;
    std::size_t done;
  };
  struct Peer {
    std::deque<Saying> says;     // before any part, and in order: messages must not overtake each other
    std::deque<Stream> streams;  // granted messages, one after another
    // Of the peer's window for us, in all: used, and known to be free again.
    std::uint64_t spent = 0, regained = 0;
    // Of ours for the peer: free again, and said to be.
    std::uint64_t returned = 0, said = 0;
  };
  using Key = std::pair<int, int>;  // rank, or kAny, and tag

  Peer& at(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  const Peer& at(int rank) const { return peers_[static_cast<std::size_t>(rank)]; }
  Outgoing seal(Peer& peer, Frame frame, std::span<const std::byte> payload) const;
  bool owes_credit(const Peer& peer) const { return peer.returned - peer.said > limits_.window / 4; }
  std::optional<Outgoing> next_part(Peer& peer, std::size_t room);
  std::optional<Id> receive_for(int from, int tag);
  std::optional<int> sender_for(int from, int tag) const;
  void match(Id id, int from, const Frame& frame, std::span<const std::byte> payload);
  bool take_grant(int from, const Frame& frame);
  void take_part(int from, const Frame& frame, std::span<const std::byte> payload);
  void finish_send(Id id);

  const Limits limits_;
  std::vector<Peer> peers_;
  std::map<Id, Send> sends_;
  std::map<Id, Receive> receives_;
  std::map<Key, std::deque<Id>> posted_;        // receives without a message
  std::map<Key, std::deque<Arrived>> arrived_;  // messages without a receive
  std::uint64_t arrivals_ = 0;
  std::vector<Finished> finished_;
};

}  // namespace dtrain
