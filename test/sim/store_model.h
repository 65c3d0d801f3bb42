#pragma once
// What a store has to answer, written a second time: from torch's TCPStore and the head of store_core.h, with plain
// maps, and without the costs. One request after the other; that is the order which a store has to be consistent with.
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/store/store_core.h"

namespace dtrain::sim {

// A request as a client means it.
struct StoreCall {
  StoreOp op = StoreOp::ping;
  std::vector<std::string> fields{};  // keys and values, as on the wire
  std::int64_t number = 0;            // ADD, BARRIER; PING: its word
  bool garbage = false;               // no request at all
};
std::string encode(const StoreCall& call);

class StoreModel {
 public:
  struct Reply {
    ConnectionId to;
    std::string bytes;
    bool any_order = false;  // a list of keys
  };
  struct Answer {
    std::vector<Reply> replies;
    bool closes = false;
  };

  explicit StoreModel(const StoreCoreLimits& limits) : limits_(limits) {}
  Answer apply(ConnectionId from, const StoreCall& call);
  void leave(ConnectionId connection);

  const std::map<std::string, std::string>& values() const { return values_; }
  const std::map<std::string, std::deque<std::string>>& queues() const { return queues_; }
  std::size_t keys_and_queues() const { return values_.size() + queues_.size(); }
  std::size_t waiting() const { return owed_.size(); }
  bool waits(ConnectionId connection) const { return owed_.contains(connection); }
  // Of WAIT; the others are in BARRIER.
  std::size_t waiting_for_keys() const;
  bool empty() const { return keys_and_queues() + waiting() == 0; }
  // What the data alone take, and what this call's could.
  std::size_t least_bytes() const;
  std::size_t most_bytes(const StoreCall& call) const;

 private:
  using Waiters = std::map<std::string, std::deque<ConnectionId>>;  // in the order of arrival

  bool present(const std::string& key) const { return values_.contains(key) || queues_.contains(key); }
  std::string value(const std::string& key) const { return values_.contains(key) ? values_.at(key) : ""; }
  bool room(const std::string& key) const { return values_.contains(key) || keys_and_queues() < limits_.keys; }
  void write(const std::string& key, const std::string& value);
  void wake(Waiters& waiters, const std::string& key, std::size_t most);
  void say(ConnectionId to, std::string bytes) { answer_.replies.push_back({to, std::move(bytes)}); }
  void refuse(ConnectionId connection);

  void add(ConnectionId from, const StoreCall& call);
  void compare_set(ConnectionId from, const StoreCall& call);
  void multi_set(ConnectionId from, const StoreCall& call);
  void wait(ConnectionId from, const StoreCall& call);
  void barrier(ConnectionId from, const StoreCall& call);
  void push(ConnectionId from, const StoreCall& call);
  void pop(ConnectionId from, const std::string& key);
  void list(ConnectionId from);

  StoreCoreLimits limits_;
  std::map<std::string, std::string> values_;
  std::map<std::string, std::deque<std::string>> queues_;
  Waiters waiting_, arrived_;
  std::map<ConnectionId, std::size_t> owed_;  // so many keys are missing, or the barrier
  Answer answer_;
};

}  // namespace dtrain::sim
