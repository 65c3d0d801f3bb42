#pragma once
// Stands between the host's front and its store, and sees in which order requests are carried out. A model carries them
// out in that order too, and every answer must be the same. So the order is consistent with what clients were told;
// and with real time, since a request must have been sent by then, and an answer is believed only after it was given.
#include <deque>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>

#include "rendezvous/store_server/store_local.h"
#include "test/sim/store_model.h"

namespace dtrain::sim {

struct StoreBroken : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A client, and all that is known of it. Its first request is a ping with its number: by that it is recognized.
struct StoreClient {
  std::uint32_t number = 0;
  std::size_t node = 0;
  std::uint64_t round = 0;  // its node's when it came; it is served in no other
  // What it sends, after the greeting, and where each request of it ends.
  std::string sends;
  std::vector<StoreCall> calls;
  std::vector<std::size_t> ends;
  // Of that: sent, taken by the store, carried out.
  std::size_t sent = 0, taken = 0, carried_out = 0;
  // What the store answered, and how much of that has arrived.
  std::string answers;
  std::size_t got = 0;
  ConnectionId connection = 0;  // at the host; 0: not yet
  // Why its connection may end; empty: it must not.
  std::string may_end;
};

class StoreWitness final : public StoreBackend {
 public:
  explicit StoreWitness(const StoreHostLimits& limits) : limits_(limits), store_(limits), model_(limits.core) {}
  void begin_round(std::uint64_t round) { round_ = round; }
  // From its first byte on.
  void expect(StoreClient& client) { expected_[client.number] = &client; }
  const StoreModel& model() const { return model_; }
  StoreStats stats() const;
  // A counter that only such ADDs of 1 touch.
  static bool counts(const StoreCall& call) { return call.op == StoreOp::add && call.fields[0].starts_with('n'); }
  // So many requests were carried out, in all rounds.
  std::uint64_t carried_out() const { return carried_out_; }
  std::uint64_t woken() const { return woken_; }

  void connect(ConnectionId connection) override;
  void receive(ConnectionId connection, std::string_view& input, StoreActions& out) override;
  void disconnect(ConnectionId connection) override;
  bool ready() const override { return store_.ready(); }
  std::string_view closed_because() const override { return store_.closed_because(); }
  void renew() override;
  std::size_t held_bytes(ConnectionId connection) const override { return store_.held_bytes(connection); }
  void describe(StoreStats& stats) const override { store_.describe(stats); }

 private:
  struct Connection {
    std::string first;  // until it is known whose it is
    StoreClient* client = nullptr;
    std::deque<StoreModel::Reply> due;
    bool closed = false;
  };
  void took(Connection& connection, ConnectionId id, std::string_view bytes);
  void carry_out(Connection& connection, ConnectionId id, bool last, const std::string* closed, std::size_t bytes);
  void said(ConnectionId to, std::string_view bytes);
  void check_counter(const StoreCall& call, std::string_view reply);
  void check() const;

  const StoreHostLimits limits_;
  StoreLocal store_;
  StoreModel model_;
  std::uint64_t round_ = 0;
  std::map<ConnectionId, Connection> connections_;
  std::map<std::uint32_t, StoreClient*> expected_;
  std::map<std::string, std::set<std::int64_t>> counted_;
  std::uint64_t carried_out_ = 0, woken_ = 0;
};

}  // namespace dtrain::sim
