// StoreCore's waits and barriers. A connection has at most one of them under way. Every registration is known from both
// sides, by key and by connection, so that waking, cancelling and a lost connection leave nothing behind.
// Tested by test/unit/rendezvous/store/store_core_test.cc.
#include <limits>
#include <optional>

#include "rendezvous/base/check.h"
#include "rendezvous/store/store_core.h"

namespace dtrain {
namespace {

constexpr std::size_t kWaitBytes = 128;
constexpr std::size_t kWaiterBytes = 96;

constexpr const char* kAlreadyWaiting = "WAIT or BARRIER while another one is under way";

}  // namespace

StoreCore::Failure StoreCore::wait(ConnectionId connection, const StoreRequest& request, StoreActions& out) {
  if (waits_.contains(connection)) return kAlreadyWaiting;
  std::size_t missing = 0;
  std::size_t cost = kWaitBytes;
  for (std::size_t i = 0; i < request.field_count(); ++i) {
    if (present(request.field(i))) continue;
    ++missing;
    cost += kWaiterBytes + kEntryBytes + request.field(i).size();
  }
  if (missing == 0) {
    out.to(connection).push_back(kStoreStopWaiting);
    return nullptr;
  }
  if (!fits(cost)) return kFull;
  bytes_ += kWaitBytes;
  Wait& wait = waits_[connection];
  wait.map = &waiting_;
  wait.missing = missing;
  wait.slots.reserve(missing);
  for (std::size_t i = 0; i < request.field_count(); ++i) {
    if (!present(request.field(i))) enlist(connection, wait, request.field(i));
  }
  return nullptr;
}

// The number of arrivals is kept under the key itself, as decimal text; a departure is not taken back.
StoreCore::Failure StoreCore::barrier(ConnectionId connection, const StoreRequest& request, StoreActions& out) {
  if (waits_.contains(connection)) return kAlreadyWaiting;
  const std::string_view key = request.key();
  std::int64_t arrived = 0;
  if (const auto found = values_.find(key); found != values_.end()) {
    const auto count = parse_integer(found->second);
    if (!count || *count < 0 || *count == std::numeric_limits<std::int64_t>::max()) {
      return "BARRIER at a key that is not a counter";
    }
    arrived = *count;
  }
  ++arrived;
  const std::string text = std::to_string(arrived);
  if (!fits(entry_cost(key, text) + kWaitBytes + kWaiterBytes + kEntryBytes + key.size())) return kFull;
  if (const Failure failure = write(key, text, out)) return failure;
  if (arrived >= request.number) {
    wake_all(arriving_, key, out);
    out.to(connection).push_back(kStoreStopWaiting);
    return nullptr;
  }
  bytes_ += kWaitBytes;
  Wait& wait = waits_[connection];
  wait.map = &arriving_;
  wait.missing = 1;
  enlist(connection, wait, key);
  return nullptr;
}

void StoreCore::enlist(ConnectionId connection, Wait& wait, std::string_view key) {
  auto entry = wait.map->find(key);
  if (entry == wait.map->end()) {
    entry = wait.map->try_emplace(std::string(key)).first;
    bytes_ += kEntryBytes + key.size();
  }
  bytes_ += kWaiterBytes;
  const auto waiter = entry->second.insert(entry->second.end(), Waiter{connection, wait.slots.size()});
  wait.slots.push_back({&*entry, waiter});
}

void StoreCore::wake_all(WaitMap& map, std::string_view key, StoreActions& out) {
  if (map.empty()) return;
  const auto entry = map.find(key);
  if (entry == map.end()) return;
  for (const Waiter& waiter : entry->second) release(waiter, out);
  bytes_ -= entry->second.size() * kWaiterBytes;
  entry->second.clear();
  drop_entry(map, entry);
}

// The connection that has waited longest.
void StoreCore::wake_one(std::string_view key, StoreActions& out) {
  const auto entry = waiting_.find(key);
  if (entry == waiting_.end()) return;
  const Waiter waiter = entry->second.front();
  release(waiter, out);
  entry->second.pop_front();
  bytes_ -= kWaiterBytes;
  if (entry->second.empty()) drop_entry(waiting_, entry);
}

// One key of the waiter's wait is there; the caller takes the waiter off the key's list.
void StoreCore::release(const Waiter& waiter, StoreActions& out) {
  const auto wait = waits_.find(waiter.connection);
  DT_CHECK(wait != waits_.end(), "a registered waiter has a wait");
  wait->second.slots[waiter.slot].entry = nullptr;
  if (--wait->second.missing > 0) return;
  out.to(waiter.connection).push_back(kStoreStopWaiting);
  waits_.erase(wait);
  bytes_ -= kWaitBytes;
}

void StoreCore::drop_entry(WaitMap& map, WaitMap::iterator entry) {
  bytes_ -= kEntryBytes + entry->first.size();
  map.erase(entry);
}

void StoreCore::drop_wait(ConnectionId connection) {
  const auto found = waits_.find(connection);
  if (found == waits_.end()) return;
  Wait& wait = found->second;
  for (const Slot& slot : wait.slots) {
    if (slot.entry == nullptr) continue;
    slot.entry->second.erase(slot.waiter);
    bytes_ -= kWaiterBytes;
    if (slot.entry->second.empty()) drop_entry(*wait.map, wait.map->find(slot.entry->first));
  }
  waits_.erase(found);
  bytes_ -= kWaitBytes;
}

bool StoreCore::consistent() const {
  std::size_t registered = 0;
  for (const WaitMap* map : {&waiting_, &arriving_}) {
    for (const auto& [key, waiters] : *map) {
      if (waiters.empty()) return false;
      for (const Waiter& waiter : waiters) {
        const auto wait = waits_.find(waiter.connection);
        if (wait == waits_.end() || wait->second.map != map) return false;
        const WaitMap::value_type* entry = wait->second.slots.at(waiter.slot).entry;
        if (entry == nullptr || entry->first != key) return false;
      }
      registered += waiters.size();
    }
  }
  std::size_t missing = 0;
  for (const auto& [connection, wait] : waits_) {
    if (wait.missing == 0) return false;
    missing += wait.missing;
  }
  for (const auto& [key, queue] : queues_) {
    if (queue.empty()) return false;
  }
  return registered == missing && bytes_ <= limits_.bytes;
}

}  // namespace dtrain
