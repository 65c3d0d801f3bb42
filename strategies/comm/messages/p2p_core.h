#pragma once
// Which message goes into which receive: one rank's side of point-to-point. Pure: no shared memory, connections,
// threads or clock; it copies bytes between the callers' memory and what it is given.
//
// A message belongs to the first receive called that takes its sender and tag, and if there is none to expect(); a
// receive gets the first message there is for it, whichever rank it may take it from. Messages of one sender with one
// tag keep their order.
//
// The receiver keeps small messages that nobody asked for yet, `window` bytes of each sender at most; what is beyond it
// waits at its sender. Of other messages it keeps the offer, as many as the senders have operations pending.
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "strategies/comm/messages/p2p_wire.h"

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

  P2pCore(int ranks, const Limits& limits) : peers_(static_cast<std::size_t>(ranks), Peer(limits)) {}
  // Others for one rank, which sets the same for this one; before the first message.
  void set_limits(int peer, const Limits& limits) { at(peer).limits = limits; }

  // The memory stays the caller's and in place until the operation is finished.
  void send(Id id, int to, const Label& label, std::span<const std::byte> data);
  void receive(Id id, int from, const Label& label, std::span<std::byte> into);

  struct Outgoing {
    Frame frame;
    std::span<const std::byte> payload;  // the sender's memory
    Id last_of = 0;                      // the send that is done when this has gone(); 0: none
  };
  // In place of send(), for a small message that nothing is before: its frame, with which it is done. None: there is
  // something, or less than that `room`.
  std::optional<Outgoing> whole(Id id, int to, const Label& label, std::span<const std::byte> data, std::size_t room);

  // In place of receive(), for a small message whose receiver looks itself for what comes: one at a time, and all
  // receives that the message may belong to go before it. Until stop_expecting(): whether it has come.
  void expect(int from, const Label& label, std::span<std::byte> into);
  bool stop_expecting();
  // Whether there is something to be done: it has come, or in a way that takes a receive().
  bool is_settled() const;
  bool has_next(int to) const;
  // The next frame for `to`, with `room` bytes of payload at most; none if it needs more room. A frame that was handed
  // out is to be sent, and gone() called when its payload is no longer needed.
  std::optional<Outgoing> next(int to, std::size_t room);
  void gone(const Outgoing& sent);

  // A frame came, in the order in which they were sent. Where its payload goes: a receive's memory or the core's, and
  // there until took(), which is to be called when all of it has come. None: nobody asked for such a frame.
  [[nodiscard]] std::optional<std::span<std::byte>> begin(int from, const Frame& frame);
  void took(int from);
  // Both at once. False: nobody asked for such a frame.
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
    bool granted = false;
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
  // A frame that has begun.
  struct Coming {
    Frame frame;
    std::optional<Id> receive;    // the one that it is for
    std::vector<std::byte> kept;  // its payload, where that goes nowhere else
  };
  struct Expected {
    int from;
    const Label* label;
    std::span<std::byte> into;
    bool has_come = false;
  };
  struct Peer {
    explicit Peer(const Limits& those) : limits(those) {}
    Limits limits;
    Coming coming;
    std::deque<Saying> says;     // before any part, and in order: messages must not overtake each other
    std::deque<Stream> streams;  // granted messages, one after another
    // Of the peer's window for us, in all: used, and known to be free again.
    std::uint64_t spent = 0, regained = 0;
    // Of ours for the peer: used, free again, and said to be.
    std::uint64_t used = 0, returned = 0, said = 0;
  };
  using Key = std::pair<int, int>;  // rank, or kAny, and tag

  Peer& at(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  const Peer& at(int rank) const { return peers_[static_cast<std::size_t>(rank)]; }
  static Outgoing seal(Peer& peer, Frame frame, std::span<const std::byte> payload, Id last_of = 0);
  static bool owes_credit(const Peer& peer) { return peer.returned - peer.said > peer.limits.window / 4; }
  // Of a message and a peer: whether it can go without being asked for.
  static bool goes_whole(const Peer& peer, std::size_t bytes);
  static Frame frame_of(Frame::Kind kind, const Label& label, std::size_t bytes);
  std::optional<Outgoing> next_part(Peer& peer, std::size_t room);
  bool admit(Peer& peer, const Frame& frame);
  std::optional<std::span<std::byte>> place(int from, const Frame& frame);
  bool is_expected(int from, const Frame& frame) const;
  std::optional<Id> receive_for(int from, int tag);
  std::optional<int> sender_for(int from, int tag) const;
  static bool fits(std::span<std::byte> into, const Label& label, const Frame& frame) {
    return frame.bytes == into.size() && frame.type == label.type;
  }
  static bool fits(const Receive& receive, const Frame& frame) { return fits(receive.into, receive.label, frame); }
  void match(Id id, int from, const Frame& frame, std::span<const std::byte> payload);
  bool take_grant(int from, const Frame& frame);
  std::optional<std::span<std::byte>> place_of_part(int from, const Frame& frame);
  void take_part(int from, const Frame& frame);

  std::vector<Peer> peers_;
  std::map<Id, Send> sends_;
  std::map<Id, Receive> receives_;
  std::set<std::pair<Key, Id>> posted_;         // receives without a message
  std::map<Key, std::deque<Arrived>> arrived_;  // messages without a receive
  std::uint64_t arrivals_ = 0;
  std::vector<Finished> finished_;
  std::optional<Expected> expected_;
};

}  // namespace dtrain
