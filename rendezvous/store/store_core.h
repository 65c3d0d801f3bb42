#pragma once
// The worker store itself: keys, queues, waits and barriers, without sockets. The shell (store_loop.h) feeds it decoded
// requests and carries out what it answers. Semantics are those of torch's TCPStore server, so that a worker cannot
// tell the two apart, but stricter where that server loses its way:
//   - memory is bounded; a request that does not fit closes its connection with a reason
//   - a MULTI_SET is applied once, when all of it has come, and wholly or not at all
//   - ADD wants the whole value to be a number, and a sum that fits into 64 bits
//   - a second WAIT or BARRIER of a connection that is still in one closes it
//   - a waiter woken by a queue's item is forgotten; lost connections leave no waits behind
//
//   request of connection 7 --> StoreCore::apply --> StoreActions: bytes to 7, a byte each to 3 and 9 that waited
//
// Life of data: until the store is destroyed. Nothing expires. Used from one thread.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rendezvous/store/store_wire.h"

namespace dtrain {

// Chosen by the shell, never reused while the core may still answer to it.
using ConnectionId = std::uint64_t;

struct StoreCoreLimits {
  // Keys and queues together.
  std::size_t keys = std::size_t{1} << 20;
  // Memory of keys, values, queues and waits together, with their bookkeeping (an estimate that errs upwards).
  std::size_t bytes = std::size_t{1} << 30;
  // The largest single reply (MULTI_GET, LIST_KEYS). Replies that are not read count as values do; `reserve` is theirs
  // alone, so that a full store can be read.
  std::size_t reply_bytes = std::size_t{128} << 20;
  std::size_t reserve = std::size_t{64} << 20;
};

// What the shell is to do, in order. Reused from call to call so that a small request allocates nothing.
class StoreActions {
 public:
  struct Close {
    ConnectionId connection;
    std::string reason;
  };

  void clear();
  // For the shell: replies that it holds now, and how many bytes more it has room for. By default: as many as come.
  void allow(std::size_t held, std::size_t room) {
    held_ = held;
    room_ = room;
  }
  std::size_t held() const { return held_; }
  std::size_t room() const { return room_; }

  std::size_t send_count() const { return sends_.size(); }
  ConnectionId send_to(std::size_t index) const { return sends_[index].to; }
  std::string_view send_bytes(std::size_t index) const;
  // The bytes of the only send, without a copy; to be cleared then.
  std::string take_bytes() { return std::move(bytes_); }
  // All bytes to be sent.
  std::size_t size() const { return bytes_.size(); }
  const std::vector<Close>& closes() const { return closes_; }

  // For the core: where to append bytes for a connection, and the order to close one.
  std::string& to(ConnectionId connection);
  void close(ConnectionId connection, std::string reason) { closes_.push_back({connection, std::move(reason)}); }

 private:
  struct Send {
    ConnectionId to;
    std::size_t begin;
  };
  std::string bytes_;
  std::vector<Send> sends_;
  std::vector<Close> closes_;
  std::size_t held_ = 0;
  std::size_t room_ = std::numeric_limits<std::size_t>::max();
};

class StoreCore {
 public:
  explicit StoreCore(const StoreCoreLimits& limits = {}) : limits_(limits) {}

  // Carry out one request and append what follows from it to `out`. A request that cannot be carried out (not a
  // number, store full ...) changes nothing and closes its connection with the reason.
  void apply(ConnectionId connection, const StoreRequest& request, StoreActions& out);

  // The connection is gone: forget its waits. Its keys stay. Harmless if it is unknown.
  void disconnect(ConnectionId connection) { drop_wait(connection); }

  std::size_t key_count() const { return values_.size(); }
  std::size_t bytes() const { return bytes_; }
  // Connections inside WAIT or BARRIER.
  std::size_t waiting_connections() const { return waits_.size(); }
  // Every index agrees with every other; for tests and fuzzing, linear in the size of the store.
  bool consistent() const;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  template <class T>
  using KeyMap = std::unordered_map<std::string, T, Hash, std::equal_to<>>;

  // One registration of a connection under a key; `slot` is its index in Wait::slots.
  struct Waiter {
    ConnectionId connection;
    std::size_t slot;
  };
  using WaitMap = KeyMap<std::list<Waiter>>;
  struct Slot {
    WaitMap::value_type* entry;  // null once woken
    std::list<Waiter>::iterator waiter;
  };
  struct Wait {
    WaitMap* map;  // waiting_ or arriving_
    std::size_t missing = 0;
    std::vector<Slot> slots;
  };

  // Memory of one map entry besides the bytes of its key and value: node, allocator headers, its share of the buckets.
  static constexpr std::size_t kEntryBytes = 160;
  static constexpr const char* kFull = "store is full (bytes)";

  using Failure = const char*;  // null: carried out
  Failure carry_out(ConnectionId connection, const StoreRequest& request, StoreActions& out);
  Failure write(std::string_view key, std::string_view value, StoreActions& out);
  Failure compare_set(ConnectionId connection, const StoreRequest& request, StoreActions& out);
  Failure add(ConnectionId connection, const StoreRequest& request, StoreActions& out);
  Failure append(std::string_view key, std::string_view value, StoreActions& out);
  Failure multi_set(const StoreRequest& request, StoreActions& out);
  Failure multi_get(ConnectionId connection, const StoreRequest& request, StoreActions& out) const;
  Failure list_keys(ConnectionId connection, StoreActions& out) const;
  Failure wait(ConnectionId connection, const StoreRequest& request, StoreActions& out);
  Failure barrier(ConnectionId connection, const StoreRequest& request, StoreActions& out);
  Failure queue_push(std::string_view key, std::string_view value, StoreActions& out);
  void queue_pop(ConnectionId connection, std::string_view key, StoreActions& out);
  bool remove(std::string_view key);

  static std::size_t entry_cost(std::string_view key, const std::string& value);
  // The whole text is a decimal number, optionally negative.
  static std::optional<std::int64_t> parse_integer(std::string_view text);
  std::string_view value_of(std::string_view key) const;
  bool present(std::string_view key) const;
  Failure get(ConnectionId connection, std::string_view key, StoreActions& out) const;
  // Why no reply of this size is made; null: there is room for it.
  Failure reply_fits(std::size_t size, const StoreActions& out) const;
  bool fits(std::size_t more) const { return more <= limits_.bytes - bytes_; }
  bool room_for_key() const { return values_.size() + queues_.size() < limits_.keys; }

  void enlist(ConnectionId connection, Wait& wait, std::string_view key);
  void wake_all(WaitMap& map, std::string_view key, StoreActions& out);
  void wake_one(std::string_view key, StoreActions& out);
  void release(const Waiter& waiter, StoreActions& out);
  void drop_entry(WaitMap& map, WaitMap::iterator entry);
  void drop_wait(ConnectionId connection);

  StoreCoreLimits limits_;
  KeyMap<std::string> values_;
  KeyMap<std::deque<std::string>> queues_;
  WaitMap waiting_;   // WAIT, by missing key
  WaitMap arriving_;  // BARRIER, by its key
  std::unordered_map<ConnectionId, Wait> waits_;
  std::size_t bytes_ = 0;
};

}  // namespace dtrain
