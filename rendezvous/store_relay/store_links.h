#pragma once
// The links of other nodes, at the node that has the store. Each carries the connections of its node's workers; to the
// store they are connections like any other. A link says hello for the round that is open, or is refused.
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "rendezvous/base/unique_fd.h"
#include "rendezvous/store/store_backend.h"
#include "rendezvous/store/store_switch.h"
#include "rendezvous/store_relay/store_link.h"

namespace dtrain {

class StoreLinks final : public StoreOutlet {
 public:
  // Store, switch and limits must live as long. The switch carries out what requests lead to.
  StoreLinks(boost::asio::io_context& io, StoreBackend& store, StoreSwitch& outlets, const StoreHostLimits& limits,
             Callbacks callbacks)
      : io_(io), store_(store), outlets_(outlets), limits_(limits), callbacks_(std::move(callbacks)) {}

  // A new link: a connected, non-blocking socket, what was read from it, and its established TLS session if it has one.
  void adopt(UniqueFd socket, std::string received, std::optional<TlsSession> tls);
  // End all links. From now on those of this round are welcome; none: no link is.
  void begin_round(std::optional<std::uint64_t> round);

  void send(ConnectionId connection, std::string_view bytes) override;
  void close(ConnectionId connection, std::string_view reason) override;
  void describe(StoreStats& stats) const override;
  std::size_t held_bytes() const override { return buffered_bytes_; }

 private:
  struct Peer {
    Peer(boost::asio::io_context& io, std::uint64_t number) : id(number), hello(io) {}
    const std::uint64_t id;
    std::shared_ptr<StoreLink> link;
    boost::asio::steady_timer hello;
    bool welcome = false;
    bool refused = false;
    std::unordered_map<std::uint64_t, ConnectionId> connections;  // by the edge's number
    std::size_t accounted = 0;                                    // the link's share of buffered_bytes_
  };
  using PeerPtr = std::shared_ptr<Peer>;
  struct Connection {
    Peer* peer;
    std::uint64_t number;
    std::size_t accounted = 0;  // its share of buffered_bytes_
  };

  void received(const PeerPtr& peer, StoreLinkFrame& frame);
  std::string why_not(const Peer& peer, const StoreLinkFrame& hello) const;
  void greeted(const PeerPtr& peer, const StoreLinkFrame& frame);
  void open(Peer& peer, std::uint64_t number);
  void data(const PeerPtr& peer, StoreLinkFrame& frame);
  void left(Peer& peer, std::uint64_t number);
  void forget(ConnectionId connection);
  void account(Peer& peer, ConnectionId connection);
  void turn(Peer& peer);
  void drop(const PeerPtr& peer, const std::string& reason);

  boost::asio::io_context& io_;
  StoreBackend& store_;
  StoreSwitch& outlets_;
  const StoreHostLimits& limits_;
  const Callbacks callbacks_;
  std::optional<std::uint64_t> round_;
  std::unordered_map<std::uint64_t, PeerPtr> peers_;
  std::unordered_map<ConnectionId, Connection> connections_;
  std::uint64_t last_peer_ = 0;
  ConnectionId last_connection_ = 0;
  StoreActions actions_;
  std::size_t buffered_bytes_ = 0;  // unfinished requests, and what links hold
};

}  // namespace dtrain
