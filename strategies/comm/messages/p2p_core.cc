// See p2p_core.h.
#include "strategies/comm/messages/p2p_core.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace dtrain {
namespace {

// Of a part, where there is more to come than that.
constexpr std::size_t kWorthAFrame = 4096;

// What a kept message takes of the window: an empty one is not for free.
std::uint64_t cost(std::size_t bytes) { return sizeof(Frame) + bytes; }

// Add to, and take from, a map of queues that holds no empty ones.
template <class Map>
auto pop(Map& map, typename Map::iterator at) {
  auto first = std::move(at->second.front());
  at->second.pop_front();
  if (at->second.empty()) map.erase(at);
  return first;
}

void copy(std::span<std::byte> to, std::span<const std::byte> from) {
  if (!from.empty() && to.data() != from.data()) std::memcpy(to.data(), from.data(), from.size());
}

}  // namespace

void P2pCore::send(Id id, int to, const Label& label, std::span<const std::byte> data) {
  sends_.emplace(id, Send{to, label, data, false});
  at(to).says.push_back({Frame::Kind::offer, id, 0});
}

void P2pCore::receive(Id id, int from, const Label& label, std::span<std::byte> into) {
  receives_.emplace(id, Receive{from, label, into});
  const auto sender = sender_for(from, label.tag);
  if (!sender) {
    posted_.insert({{from, label.tag}, id});
    return;
  }
  const Arrived message = pop(arrived_, arrived_.find({*sender, label.tag}));
  match(id, *sender, message.frame, message.payload);
}

std::optional<P2pCore::Outgoing> P2pCore::whole(Id id, int to, const Label& label, std::span<const std::byte> data,
                                                std::size_t room) {
  Peer& peer = at(to);
  if (!peer.says.empty() || data.size() > room || !goes_whole(peer, data.size())) return std::nullopt;
  peer.spent += cost(data.size());
  Frame frame = frame_of(Frame::Kind::whole, label, data.size());
  frame.send = id;
  return seal(peer, frame, data);
}

void P2pCore::expect(int from, const Label& label, std::span<std::byte> into) {
  expected_ = Expected{from, &label, into};
}

bool P2pCore::stop_expecting() { return std::exchange(expected_, std::nullopt)->has_come; }

bool P2pCore::is_settled() const {
  return expected_ && (expected_->has_come || arrived_.contains({expected_->from, expected_->label->tag}));
}

bool P2pCore::is_expected(int from, const Frame& frame) const {
  if (!expected_ || frame.kind != Frame::Kind::whole || from != expected_->from || is_settled()) return false;
  const Label& label = *expected_->label;
  const auto is_posted = [&](int rank) {
    const auto found = posted_.lower_bound({{rank, label.tag}, 0});
    return found != posted_.end() && found->first == Key(rank, label.tag);
  };
  return frame.tag == label.tag && fits(expected_->into, label, frame) && !is_posted(from) && !is_posted(kAny);
}

// Whose message is the first of those that such a receive may take.
std::optional<int> P2pCore::sender_for(int from, int tag) const {
  std::optional<int> sender;
  std::uint64_t least = 0;
  for (int rank = from == kAny ? 0 : from; rank < static_cast<int>(peers_.size()); ++rank) {
    const auto found = arrived_.find({rank, tag});
    if (found != arrived_.end() && (!sender || found->second.front().order < least)) {
      sender = rank;
      least = found->second.front().order;
    }
    if (from != kAny) break;
  }
  return sender;
}

// The first of the receives that may take such a message, no longer waiting.
std::optional<P2pCore::Id> P2pCore::receive_for(int from, int tag) {
  const auto first_of = [this](const Key& key) {
    const auto found = posted_.lower_bound({key, 0});
    return found != posted_.end() && found->first == key ? found : posted_.end();
  };
  auto first = first_of({from, tag});
  const auto any = first_of({kAny, tag});
  if (any != posted_.end() && (first == posted_.end() || any->second < first->second)) first = any;
  if (first == posted_.end()) return std::nullopt;
  return posted_.extract(first).value().second;
}

void P2pCore::match(Id id, int from, const Frame& frame, std::span<const std::byte> payload) {
  Receive& receive = receives_.at(id);
  const bool whole = frame.kind == Frame::Kind::whole;
  if (whole) at(from).returned += cost(payload.size());
  receive.from = from;
  if (!fits(receive, frame)) {
    finished_.push_back({id, from, std::string(frame.text)});
    receives_.erase(id);
  } else if (whole) {
    copy(receive.into, payload);
    finished_.push_back({id, from, ""});
    receives_.erase(id);
  } else {
    receive.granted = true;
    at(from).says.push_back({Frame::Kind::grant, frame.send, id});
  }
}

bool P2pCore::take(int from, const Frame& frame, std::span<const std::byte> payload) {
  if (!admit(at(from), frame)) return false;
  if (is_expected(from, frame)) {
    copy(expected_->into, payload);
    expected_->has_come = true;
    at(from).returned += cost(payload.size());
    return true;
  }
  const auto into = place(from, frame);
  if (!into) return false;
  copy(*into, payload);
  took(from);
  return true;
}

std::optional<std::span<std::byte>> P2pCore::begin(int from, const Frame& frame) {
  return admit(at(from), frame) ? place(from, frame) : std::nullopt;
}

// Both windows, the peer's for us and ours for the peer. False: it has said or used what it could not.
bool P2pCore::admit(Peer& peer, const Frame& frame) {
  if (frame.returned < peer.regained || frame.returned > peer.spent) return false;
  peer.regained = frame.returned;
  if (frame.kind != Frame::Kind::whole) return true;
  peer.used += cost(frame.payload);
  return peer.used - peer.said <= peer.limits.window;
}

std::optional<std::span<std::byte>> P2pCore::place(int from, const Frame& frame) {
  Coming& coming = at(from).coming;
  coming.frame = frame;
  coming.receive.reset();
  coming.kept.clear();
  if (frame.kind == Frame::Kind::part) return place_of_part(from, frame);
  if (frame.kind == Frame::Kind::grant && !take_grant(from, frame)) return std::nullopt;
  if (frame.kind != Frame::Kind::whole) return std::span<std::byte>();
  coming.receive = receive_for(from, frame.tag);
  if (coming.receive) {
    Receive& receive = receives_.at(*coming.receive);
    receive.from = from;
    if (fits(receive, frame)) return receive.into;
  }
  coming.kept.resize(frame.payload);
  return coming.kept;
}

void P2pCore::took(int from) {
  Coming& coming = at(from).coming;
  const Frame& frame = coming.frame;
  if (frame.kind == Frame::Kind::part) return take_part(from, frame);
  if (frame.kind != Frame::Kind::whole && frame.kind != Frame::Kind::offer) return;
  // One may have been called for it since it began.
  const auto id = coming.receive ? coming.receive : receive_for(from, frame.tag);
  if (!id) {
    arrived_[{from, frame.tag}].push_back({arrivals_++, frame, std::move(coming.kept)});
    coming.kept = {};
    return;
  }
  const Receive& receive = receives_.at(*id);
  const bool in_place = coming.receive && fits(receive, frame);
  match(*id, from, frame, in_place ? std::span<const std::byte>(receive.into) : coming.kept);
}

bool P2pCore::take_grant(int from, const Frame& frame) {
  const auto found = sends_.find(frame.send);
  if (found == sends_.end() || found->second.to != from || !found->second.offered) return false;
  found->second.offered = false;
  at(from).streams.push_back({frame.send, frame.receive, 0});
  return true;
}

std::optional<std::span<std::byte>> P2pCore::place_of_part(int from, const Frame& frame) {
  const auto found = receives_.find(frame.receive);
  if (found == receives_.end() || found->second.from != from || !found->second.granted) return std::nullopt;
  const Receive& receive = found->second;
  if (frame.payload > receive.into.size() - receive.got) return std::nullopt;
  return receive.into.subspan(receive.got, frame.payload);
}

void P2pCore::take_part(int from, const Frame& frame) {
  const auto found = receives_.find(frame.receive);
  Receive& receive = found->second;
  receive.got += frame.payload;
  if (receive.got < receive.into.size()) return;
  finished_.push_back({found->first, from, ""});
  receives_.erase(found);
}

bool P2pCore::goes_whole(const Peer& peer, std::size_t bytes) {
  return bytes <= peer.limits.whole_bytes && peer.spent + cost(bytes) - peer.regained <= peer.limits.window;
}

Frame P2pCore::frame_of(Frame::Kind kind, const Label& label, std::size_t bytes) {
  Frame frame;
  frame.kind = kind;
  frame.type = label.type;
  frame.tag = label.tag;
  frame.bytes = bytes;
  label.text.copy(frame.text, sizeof(frame.text) - 1);
  return frame;
}

bool P2pCore::has_next(int to) const {
  const Peer& peer = at(to);
  return !peer.says.empty() || !peer.streams.empty() || owes_credit(peer);
}

P2pCore::Outgoing P2pCore::seal(Peer& peer, Frame frame, std::span<const std::byte> payload, Id last_of) {
  frame.payload = payload.size();
  frame.returned = peer.said = peer.returned;
  return {frame, payload, last_of};
}

std::optional<P2pCore::Outgoing> P2pCore::next(int to, std::size_t room) {
  Peer& peer = at(to);
  if (peer.says.empty()) {
    auto part = next_part(peer, room);
    if (part || !owes_credit(peer)) return part;
    Frame credit;
    credit.kind = Frame::Kind::credit;
    return seal(peer, credit, {});
  }
  const Saying saying = peer.says.front();
  Frame frame;
  frame.kind = saying.kind;
  std::span<const std::byte> payload;
  Id last_of = 0;
  if (saying.kind == Frame::Kind::offer) {
    Send& send = sends_.at(saying.send);
    frame = frame_of(Frame::Kind::offer, send.label, send.data.size());
    if (goes_whole(peer, send.data.size())) {
      if (send.data.size() > room) return std::nullopt;
      frame.kind = Frame::Kind::whole;
      payload = send.data;
      peer.spent += cost(payload.size());
      last_of = saying.send;
    } else {
      send.offered = true;
    }
  }
  frame.send = saying.send;
  frame.receive = saying.receive;
  peer.says.pop_front();
  return seal(peer, frame, payload, last_of);
}

std::optional<P2pCore::Outgoing> P2pCore::next_part(Peer& peer, std::size_t room) {
  if (peer.streams.empty()) return std::nullopt;
  Stream& stream = peer.streams.front();
  const auto rest = sends_.at(stream.send).data.subspan(stream.done);
  const std::size_t size = std::min({rest.size(), room, peer.limits.part_bytes});
  if (size < std::min({rest.size(), peer.limits.part_bytes, kWorthAFrame})) return std::nullopt;
  Frame frame;
  frame.kind = Frame::Kind::part;
  frame.receive = stream.receive;
  stream.done += size;
  const Id last_of = size == rest.size() ? stream.send : 0;
  if (last_of != 0) peer.streams.pop_front();
  return seal(peer, frame, rest.first(size), last_of);
}

void P2pCore::gone(const Outgoing& sent) {
  if (sent.last_of == 0) return;
  const auto found = sends_.find(sent.last_of);
  finished_.push_back({found->first, found->second.to, ""});
  sends_.erase(found);
}

std::optional<P2pCore::Id> P2pCore::waits_for(int peer) const {
  std::optional<Id> first;
  const auto consider = [&](Id id) { first = std::min(first.value_or(id), id); };
  const auto receive = std::find_if(receives_.begin(), receives_.end(), [&](auto& r) { return r.second.from == peer; });
  const auto send = std::find_if(sends_.begin(), sends_.end(), [&](auto& s) { return s.second.to == peer; });
  if (receive != receives_.end()) consider(receive->first);
  if (send != sends_.end()) consider(send->first);
  return first;
}

}  // namespace dtrain
