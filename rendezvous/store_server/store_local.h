#pragma once
// The store in this process: a decoder for each connection, and the core they all speak to. No sockets: connections of
// this node's workers and those behind the links of other nodes are the same to it.
#include <unordered_map>

#include "rendezvous/base/discard.h"
#include "rendezvous/store/store_backend.h"

namespace dtrain {

class StoreLocal final : public StoreBackend {
 public:
  explicit StoreLocal(const StoreHostLimits& limits) : limits_(limits), core_(limits.core) {}

  void connect(ConnectionId connection) override;
  void receive(ConnectionId connection, std::string_view& input, StoreActions& out) override;
  void disconnect(ConnectionId connection) override;
  bool ready() const override { return true; }
  std::string_view closed_because() const override { return {}; }
  std::size_t held_bytes(ConnectionId connection) const override;
  void describe(StoreStats& stats) const override;

  // Forget every key and every connection.
  void renew() override;
  bool consistent() const { return core_.consistent(); }  // for tests

 private:
  const StoreHostLimits limits_;
  StoreCore core_;
  std::unordered_map<ConnectionId, StoreDecoder> decoders_;
  std::uint64_t requests_ = 0;
  Discard discard_{8};  // of what is forgotten
};

}  // namespace dtrain
