#include "rendezvous/store_relay/store_links.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace dtrain {

namespace asio = boost::asio;

namespace {

// Replies collected before they are carried out.
constexpr std::size_t kLinkBatchBytes = std::size_t{64} << 10;

}  // namespace

void StoreLinks::adopt(UniqueFd socket, std::string received_before, std::optional<TlsSession> tls) {
  const auto peer = std::make_shared<Peer>(io_, ++last_peer_);
  peer->link = std::make_shared<StoreLink>(io_, std::move(socket), std::move(tls), true);
  peers_.emplace(peer->id, peer);
  const std::weak_ptr<Peer> weak = peer;
  peer->link->start({.frame =
                         [this, weak](StoreLinkFrame& frame) {
                           if (const PeerPtr alive = weak.lock()) received(alive, frame);
                         },
                     .turn =
                         [this, weak] {
                           if (const PeerPtr alive = weak.lock()) turn(*alive);
                         },
                     .drained = [] {},
                     .closed =
                         [this, weak](const std::string& reason) {
                           if (const PeerPtr alive = weak.lock()) drop(alive, reason);
                         }},
                    std::move(received_before), false);
  peer->hello.expires_after(limits_.greeting);
  peer->hello.async_wait([this, weak](const boost::system::error_code& ec) {
    const PeerPtr alive = weak.lock();
    if (!ec && alive && !alive->welcome) drop(alive, alive->refused ? "" : "no hello in time");
  });
}

void StoreLinks::begin_round(std::optional<std::uint64_t> round) {
  while (!peers_.empty()) drop(peers_.begin()->second, "");
  round_ = round;
}

// ---- from the nodes -------------------------------------------------------------------------------------------------

void StoreLinks::received(const PeerPtr& peer, StoreLinkFrame& frame) {
  if (!peer->welcome) return greeted(peer, frame);
  switch (frame.type) {
    case StoreLinkType::open:
      return open(*peer, frame.number);
    case StoreLinkType::data:
      return data(peer, frame);
    case StoreLinkType::closed:
      return left(*peer, frame.number);
    default:
      drop(peer, fmt::format("unexpected frame {}", static_cast<int>(frame.type)));
  }
}

std::string StoreLinks::why_not(const Peer& peer, const StoreLinkFrame& hello) const {
  if (hello.type != StoreLinkType::hello) return "a store link begins with hello";
  if (!round_) return "no round is open";
  if (hello.number != *round_) return fmt::format("round {} is open, not round {}", *round_, hello.number);
  if (const auto epoch = peer.link->epoch(); epoch && *epoch != hello.number)
    return fmt::format("its key is for round {}, not for round {}", *epoch, hello.number);
  if (peers_.size() > limits_.links) return fmt::format("there are {} links already", limits_.links);
  return {};
}

void StoreLinks::greeted(const PeerPtr& peer, const StoreLinkFrame& frame) {
  const std::string why = why_not(*peer, frame);
  if (why.empty()) {
    peer->welcome = true;
    peer->hello.cancel();
    return peer->link->send(StoreLinkType::welcome, frame.number);
  }
  peer->refused = true;
  // It is told, and has as long as for its hello to read that.
  callbacks_.report(fmt::format("refused a link of another node: {}", why));
  peer->link->send(StoreLinkType::refused, 0, why);
  peer->link->finish();
}

void StoreLinks::open(Peer& peer, std::uint64_t number) {
  if (peer.connections.contains(number)) return;
  if (connections_.size() >= limits_.link_connections) {
    return peer.link->send(StoreLinkType::closed, number,
                           fmt::format("there are {} connections of other nodes already", limits_.link_connections));
  }
  const ConnectionId id = kBehindLink | ++last_connection_;
  peer.connections.emplace(number, id);
  connections_.emplace(id, Connection{&peer, number});
  store_.connect(id);
}

void StoreLinks::data(const PeerPtr& peer, StoreLinkFrame& frame) {
  const auto found = peer->connections.find(frame.number);
  if (found == peer->connections.end()) {
    frame.payload = {};
    return;
  }
  const ConnectionId id = found->second;
  while (!frame.payload.empty() && !peer->link->full()) {
    const std::size_t most = limits_.buffer_bytes;
    actions_.allow(outlets_.held_bytes(), most - std::min(most, buffered_bytes_));
    store_.receive(id, frame.payload, actions_);
    if (actions_.closes().empty() && actions_.size() < kLinkBatchBytes && frame.payload.empty()) break;
    outlets_.carry_out(actions_);
    if (!connections_.contains(id)) {
      frame.payload = {};
      return;
    }
  }
  account(*peer, id);
}

void StoreLinks::left(Peer& peer, std::uint64_t number) {
  const auto found = peer.connections.find(number);
  if (found != peer.connections.end()) forget(found->second);
}

// ---- to the nodes ---------------------------------------------------------------------------------------------------

void StoreLinks::send(ConnectionId connection, std::string_view bytes) {
  const auto found = connections_.find(connection);
  if (found == connections_.end()) return;
  found->second.peer->link->send(StoreLinkType::data, found->second.number, bytes);
}

void StoreLinks::close(ConnectionId connection, std::string_view reason) {
  const auto found = connections_.find(connection);
  if (found == connections_.end()) return;
  if (!reason.empty()) callbacks_.report(fmt::format("closed a connection of another node's worker: {}", reason));
  found->second.peer->link->send(StoreLinkType::closed, found->second.number, reason);
  forget(connection);
}

// ---- keeping count --------------------------------------------------------------------------------------------------

void StoreLinks::forget(ConnectionId connection) {
  const auto found = connections_.find(connection);
  buffered_bytes_ -= found->second.accounted;
  found->second.peer->connections.erase(found->second.number);
  connections_.erase(found);
  store_.disconnect(connection);
}

// The one whose unfinished request is too much for all of them has to go.
void StoreLinks::account(Peer& peer, ConnectionId connection) {
  Connection& entry = connections_.at(connection);
  const std::size_t held = store_.held_bytes(connection);
  buffered_bytes_ += held - entry.accounted;
  entry.accounted = held;
  const std::size_t waiting = peer.link->held_bytes();
  buffered_bytes_ += waiting - peer.accounted;
  peer.accounted = waiting;
  if (buffered_bytes_ <= limits_.buffer_bytes) return;
  close(connection,
        fmt::format("all connections of other nodes together hold more than {} bytes of unfinished requests "
                    "and unread replies",
                    limits_.buffer_bytes));
}

void StoreLinks::turn(Peer& peer) {
  outlets_.carry_out(actions_);
  const std::size_t waiting = peer.link->held_bytes();
  buffered_bytes_ += waiting - peer.accounted;
  peer.accounted = waiting;
  callbacks_.publish();
}

void StoreLinks::drop(const PeerPtr& peer, const std::string& reason) {
  outlets_.carry_out(actions_);
  if (!reason.empty()) callbacks_.report(fmt::format("closed a link of another node: {}", reason));
  peer->hello.cancel();
  peer->link->close();
  while (!peer->connections.empty()) forget(peer->connections.begin()->second);
  buffered_bytes_ -= peer->accounted;
  peers_.erase(peer->id);
  callbacks_.publish();
}

void StoreLinks::describe(StoreStats& stats) const {
  stats.links = 0;
  for (const auto& [id, peer] : peers_) stats.links += peer->welcome ? 1 : 0;
  stats.link_connections = connections_.size();
}

}  // namespace dtrain
