// See p2p_core.h.
#include "strategies/comm/p2p_core.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace dtrain {
namespace {

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
  if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
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
    posted_[{from, label.tag}].push_back(id);
    return;
  }
  const Arrived message = pop(arrived_, arrived_.find({*sender, label.tag}));
  match(id, *sender, message.frame, message.payload);
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
  const auto named = posted_.find({from, tag}), any = posted_.find({kAny, tag});
  if (named == posted_.end() && any == posted_.end()) return std::nullopt;
  const bool takes_any =
      named == posted_.end() || (any != posted_.end() && any->second.front() < named->second.front());
  return pop(posted_, takes_any ? any : named);
}

void P2pCore::match(Id id, int from, const Frame& frame, std::span<const std::byte> payload) {
  Receive& receive = receives_.at(id);
  const bool whole = frame.kind == Frame::Kind::whole;
  if (whole) at(from).returned += cost(payload.size());
  receive.from = from;
  if (frame.bytes != receive.into.size() || frame.type != receive.label.type) {
    finished_.push_back({id, from, std::string(frame.text)});
    receives_.erase(id);
  } else if (whole) {
    copy(receive.into, payload);
    finished_.push_back({id, from, ""});
    receives_.erase(id);
  } else {
    at(from).says.push_back({Frame::Kind::grant, frame.send, id});
  }
}

bool P2pCore::take(int from, const Frame& frame, std::span<const std::byte> payload) {
  at(from).regained = frame.returned;
  if (frame.kind == Frame::Kind::credit) return true;
  if (frame.kind == Frame::Kind::grant) return take_grant(from, frame);
  if (frame.kind == Frame::Kind::part) {
    take_part(from, frame, payload);
  } else if (const auto id = receive_for(from, frame.tag)) {
    match(*id, from, frame, payload);
  } else {
    arrived_[{from, frame.tag}].push_back({arrivals_++, frame, {payload.begin(), payload.end()}});
  }
  return true;
}

bool P2pCore::take_grant(int from, const Frame& frame) {
  const auto found = sends_.find(frame.send);
  if (found == sends_.end() || found->second.to != from || !found->second.offered) return false;
  found->second.offered = false;
  at(from).streams.push_back({frame.send, frame.receive, 0});
  return true;
}

void P2pCore::take_part(int from, const Frame& frame, std::span<const std::byte> payload) {
  const auto found = receives_.find(frame.receive);
  if (found == receives_.end()) return;
  Receive& receive = found->second;
  const auto part = payload.first(std::min(payload.size(), receive.into.size() - receive.got));
  copy(receive.into.subspan(receive.got), part);
  receive.got += part.size();
  if (receive.got < receive.into.size()) return;
  finished_.push_back({found->first, from, ""});
  receives_.erase(found);
}

bool P2pCore::has_next(int to) const {
  const Peer& peer = at(to);
  return !peer.says.empty() || !peer.streams.empty() || owes_credit(peer);
}

P2pCore::Outgoing P2pCore::seal(Peer& peer, Frame frame, std::span<const std::byte> payload) const {
  frame.payload = payload.size();
  frame.returned = peer.said = peer.returned;
  return {frame, payload};
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
  frame.send = saying.send;
  frame.receive = saying.receive;
  std::span<const std::byte> payload;
  if (saying.kind == Frame::Kind::offer) {
    Send& send = sends_.at(saying.send);
    frame.type = send.label.type;
    frame.tag = send.label.tag;
    frame.bytes = send.data.size();
    send.label.text.copy(frame.text, sizeof(frame.text) - 1);
    if (send.data.size() <= limits_.whole_bytes &&
        peer.spent + cost(send.data.size()) - peer.regained <= limits_.window) {
      if (send.data.size() > room) return std::nullopt;
      frame.kind = Frame::Kind::whole;
      payload = send.data;
      peer.spent += cost(payload.size());
      finish_send(saying.send);
    } else {
      send.offered = true;
    }
  }
  peer.says.pop_front();
  return seal(peer, frame, payload);
}

std::optional<P2pCore::Outgoing> P2pCore::next_part(Peer& peer, std::size_t room) {
  if (peer.streams.empty()) return std::nullopt;
  Stream& stream = peer.streams.front();
  const auto rest = sends_.at(stream.send).data.subspan(stream.done);
  const std::size_t size = std::min({rest.size(), room, limits_.part_bytes});
  if (size < std::min(rest.size(), limits_.whole_bytes)) return std::nullopt;  // not worth a frame yet
  Frame frame;
  frame.kind = Frame::Kind::part;
  frame.receive = stream.receive;
  stream.done += size;
  if (size == rest.size()) {
    finish_send(stream.send);
    peer.streams.pop_front();
  }
  return seal(peer, frame, rest.first(size));
}

void P2pCore::finish_send(Id id) {
  finished_.push_back({id, sends_.at(id).to, ""});
  sends_.erase(id);
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
