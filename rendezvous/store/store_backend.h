#pragma once
// What is behind a store's clients (store_clients.h): the store itself (store_local.h), or the way to the node that has
// it (store_relay.h). StoreClients reads and writes; the backend says what the bytes mean. A backend is used from one
// thread.
#include <cstddef>
#include <string_view>

#include "rendezvous/store/store_core.h"
#include "rendezvous/store/store_limits.h"

namespace dtrain {

class StoreBackend {
 public:
  virtual ~StoreBackend() = default;

  // A client has greeted; its requests follow. The id has not been used before.
  virtual void connect(ConnectionId connection) = 0;
  // Take a client's next bytes from the front of `input`: requests, cut anywhere. What follows from them is appended to
  // `out`. Where that grows large it returns early: carry it out and call again with what is left.
  virtual void receive(ConnectionId connection, std::string_view& input, StoreActions& out) = 0;
  // The connection is gone. Harmless if it is unknown.
  virtual void disconnect(ConnectionId connection) = 0;

  // False: leave the clients' requests where they are; the backend says when to go on.
  virtual bool ready() const = 0;
  // Why every client is turned away now; empty: they are served.
  virtual std::string_view closed_because() const = 0;
  // Forget everything; no connection is there.
  virtual void renew() {}
  // Memory held for a connection's unfinished request.
  virtual std::size_t held_bytes(ConnectionId connection) const = 0;
  // Fill in what the backend knows.
  virtual void describe(StoreStats& stats) const = 0;
};

}  // namespace dtrain
