// Values, counters and queues. Waits and barriers are in store_waits.cc.
#include "rendezvous/store/store_core.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "rendezvous/base/check.h"

namespace dtrain {
namespace {

// A std::deque allocates its first block at once.
constexpr std::size_t kQueueBytes = 800;
constexpr std::size_t kItemBytes = sizeof(std::string) + 16;

constexpr const char* kTooManyKeys = "store is full (number of keys)";
constexpr const char* kReplyTooLarge = "reply would be too large";
constexpr const char* kNoRoomForReply = "no room for its reply: too many replies are not read";
// Whoever asks for so little is not refused for what others do not read.
constexpr std::size_t kSmallReply = std::size_t{64} << 10;

}  // namespace

std::size_t StoreCore::entry_cost(std::string_view key, const std::string& value) {
  return kEntryBytes + key.size() + value.capacity();
}

std::optional<std::int64_t> StoreCore::parse_integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

void StoreActions::clear() {
  // A large reply must not keep its memory for good.
  constexpr std::size_t kKeptBytes = std::size_t{1} << 20;
  if (bytes_.capacity() > kKeptBytes) std::string().swap(bytes_);
  bytes_.clear();
  sends_.clear();
  closes_.clear();
}

std::string_view StoreActions::send_bytes(std::size_t index) const {
  const std::size_t begin = sends_[index].begin;
  const std::size_t end = index + 1 < sends_.size() ? sends_[index + 1].begin : bytes_.size();
  return std::string_view(bytes_).substr(begin, end - begin);
}

std::string& StoreActions::to(ConnectionId connection) {
  if (sends_.empty() || sends_.back().to != connection) sends_.push_back({connection, bytes_.size()});
  return bytes_;
}

void StoreCore::apply(ConnectionId connection, const StoreRequest& request, StoreActions& out) {
  const Failure failure = carry_out(connection, request, out);
  if (failure == nullptr) return;
  drop_wait(connection);
  out.close(connection, failure);
}

StoreCore::Failure StoreCore::carry_out(ConnectionId connection, const StoreRequest& request, StoreActions& out) {
  switch (request.op) {
    case StoreOp::validate:
      return nullptr;  // the decoder has checked it
    case StoreOp::set:
      return write(request.key(), request.field(1), out);
    case StoreOp::compare_set:
      return compare_set(connection, request, out);
    case StoreOp::get:
      return get(connection, request.key(), out);
    case StoreOp::add:
      return add(connection, request, out);
    case StoreOp::check: {
      bool ready = true;
      for (std::size_t i = 0; ready && i < request.field_count(); ++i) ready = present(request.field(i));
      out.to(connection).push_back(ready ? kStoreReady : kStoreNotReady);
      return nullptr;
    }
    case StoreOp::wait:
      return wait(connection, request, out);
    case StoreOp::num_keys:
      put_store_i64(out.to(connection), static_cast<std::int64_t>(values_.size()));
      return nullptr;
    case StoreOp::delete_key:
      put_store_i64(out.to(connection), remove(request.key()) ? 1 : 0);
      return nullptr;
    case StoreOp::append:
      return append(request.key(), request.field(1), out);
    case StoreOp::multi_get:
      return multi_get(connection, request, out);
    case StoreOp::multi_set:
      return multi_set(request, out);
    case StoreOp::cancel_wait:
      drop_wait(connection);
      out.to(connection).push_back(kStoreWaitCanceled);
      return nullptr;
    case StoreOp::ping:
      put_store_u32(out.to(connection), request.word);
      return nullptr;
    case StoreOp::queue_push:
      return queue_push(request.key(), request.field(1), out);
    case StoreOp::queue_pop:
      queue_pop(connection, request.key(), out);
      return nullptr;
    case StoreOp::queue_len: {
      const auto queue = queues_.find(request.key());
      put_store_i64(out.to(connection), queue == queues_.end() ? 0 : static_cast<std::int64_t>(queue->second.size()));
      return nullptr;
    }
    case StoreOp::list_keys:
      return list_keys(connection, out);
    case StoreOp::barrier:
      return barrier(connection, request, out);
  }
  return "unknown operation";
}

StoreCore::Failure StoreCore::write(std::string_view key, std::string_view value, StoreActions& out) {
  const auto found = values_.find(key);
  if (found != values_.end()) {
    std::string& stored = found->second;
    if (value.size() > stored.capacity() && !fits(value.size())) return kFull;
    bytes_ -= stored.capacity();
    // Reuse the old value's memory unless most of it would lie idle.
    if (value.size() > stored.capacity() || value.size() < stored.capacity() / 2) {
      std::string(value).swap(stored);
    } else {
      stored.assign(value);
    }
    bytes_ += stored.capacity();
    return nullptr;
  }
  if (!room_for_key()) return kTooManyKeys;
  std::string copy(value);
  if (!fits(entry_cost(key, copy))) return kFull;
  bytes_ += entry_cost(key, copy);
  values_.emplace(key, std::move(copy));
  wake_all(waiting_, key, out);
  return nullptr;
}

StoreCore::Failure StoreCore::compare_set(ConnectionId connection, const StoreRequest& request, StoreActions& out) {
  const std::string_view expected = request.field(1);
  const std::string_view desired = request.field(2);
  const auto found = values_.find(request.key());
  // A missing key with an expectation: nothing is stored, and the reply repeats the expectation, as torch's server
  // does.
  const bool matches = found == values_.end() ? expected.empty() : found->second == expected;
  const std::string_view reply = matches ? desired : found == values_.end() ? expected : found->second;
  if (const Failure failure = reply_fits(sizeof(std::uint64_t) + reply.size(), out)) return failure;
  if (matches)
    if (const Failure failure = write(request.key(), desired, out)) return failure;
  put_store_bytes(out.to(connection), reply);
  return nullptr;
}

StoreCore::Failure StoreCore::add(ConnectionId connection, const StoreRequest& request, StoreActions& out) {
  const auto found = values_.find(request.key());
  std::int64_t sum = 0;
  if (found != values_.end()) {
    const auto stored = parse_integer(found->second);
    if (!stored) return "ADD to a value that is not a number";
    sum = *stored;
  }
  if (__builtin_add_overflow(sum, request.number, &sum)) return "ADD overflows a 64-bit number";
  char text[std::numeric_limits<std::int64_t>::digits10 + 3];
  const auto end = std::to_chars(text, text + sizeof(text), sum).ptr;
  if (const Failure failure = write(request.key(), {text, static_cast<std::size_t>(end - text)}, out)) return failure;
  put_store_i64(out.to(connection), sum);
  return nullptr;
}

StoreCore::Failure StoreCore::append(std::string_view key, std::string_view value, StoreActions& out) {
  const auto found = values_.find(key);
  if (found == values_.end()) return write(key, value, out);
  std::string& stored = found->second;
  const std::size_t size = stored.size() + value.size();
  if (size > stored.capacity()) {
    // Growth by doubling keeps many small appends linear; it is asked for here so that the quota sees it first.
    const std::size_t capacity = std::max(size, 2 * stored.capacity());
    if (!fits(capacity)) return kFull;
    bytes_ -= stored.capacity();
    stored.reserve(capacity);
    bytes_ += stored.capacity();
  }
  stored.append(value);
  return nullptr;
}

// All or nothing: the quota is checked for the whole request, as if every key were new, before the first is set.
StoreCore::Failure StoreCore::multi_set(const StoreRequest& request, StoreActions& out) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < request.field_count(); ++i) bytes += request.field(i).size() + kEntryBytes;
  if (!fits(bytes)) return kFull;
  if (values_.size() + queues_.size() + request.field_count() / 2 > limits_.keys) return kTooManyKeys;
  for (std::size_t i = 0; i + 1 < request.field_count(); i += 2) {
    const Failure failure = write(request.field(i), request.field(i + 1), out);
    DT_CHECK(failure == nullptr, "room for all keys was checked above");
  }
  return nullptr;
}

// A reply lies in memory twice for a moment: here, and in what the shell holds.
StoreCore::Failure StoreCore::reply_fits(std::size_t size, const StoreActions& out) const {
  if (size <= kSmallReply) return nullptr;
  const std::size_t all = out.size() + size;
  const bool fits = all <= out.room() && bytes_ + out.held() + 2 * all <= limits_.bytes + limits_.reserve;
  return fits ? nullptr : kNoRoomForReply;
}

StoreCore::Failure StoreCore::get(ConnectionId connection, std::string_view key, StoreActions& out) const {
  const std::string_view value = value_of(key);
  if (const Failure failure = reply_fits(sizeof(std::uint64_t) + value.size(), out)) return failure;
  put_store_bytes(out.to(connection), value);
  return nullptr;
}

StoreCore::Failure StoreCore::multi_get(ConnectionId connection, const StoreRequest& request, StoreActions& out) const {
  std::size_t size = 0;
  for (std::size_t i = 0; i < request.field_count(); ++i) {
    size += sizeof(std::uint64_t) + value_of(request.field(i)).size();
    if (size > limits_.reply_bytes) return kReplyTooLarge;
  }
  if (const Failure failure = reply_fits(size, out)) return failure;
  if (size == 0) return nullptr;  // no keys, no bytes
  std::string& reply = out.to(connection);
  reply.reserve(reply.size() + size);
  for (std::size_t i = 0; i < request.field_count(); ++i) put_store_bytes(reply, value_of(request.field(i)));
  return nullptr;
}

StoreCore::Failure StoreCore::list_keys(ConnectionId connection, StoreActions& out) const {
  std::size_t size = sizeof(std::uint64_t);
  for (const auto& [key, value] : values_) size += sizeof(std::uint64_t) + key.size();
  if (size > limits_.reply_bytes) return kReplyTooLarge;
  if (const Failure failure = reply_fits(size, out)) return failure;
  std::string& reply = out.to(connection);
  put_store_i64(reply, static_cast<std::int64_t>(values_.size()));
  for (const auto& [key, value] : values_) put_store_bytes(reply, key);
  return nullptr;
}

bool StoreCore::remove(std::string_view key) {
  const auto found = values_.find(key);
  if (found == values_.end()) return false;
  bytes_ -= entry_cost(key, found->second);
  values_.erase(found);
  return true;
}

StoreCore::Failure StoreCore::queue_push(std::string_view key, std::string_view value, StoreActions& out) {
  std::string item(value);
  const std::size_t item_cost = kItemBytes + item.capacity();
  auto queue = queues_.find(key);
  if (queue == queues_.end()) {
    if (!room_for_key()) return kTooManyKeys;
    const std::size_t queue_cost = kQueueBytes + key.size();
    if (!fits(queue_cost + item_cost)) return kFull;
    bytes_ += queue_cost;
    queue = queues_.try_emplace(std::string(key)).first;
  } else if (!fits(item_cost)) {
    return kFull;
  }
  bytes_ += item_cost;
  queue->second.push_back(std::move(item));
  wake_one(key, out);
  return nullptr;
}

void StoreCore::queue_pop(ConnectionId connection, std::string_view key, StoreActions& out) {
  const auto queue = queues_.find(key);
  std::string& reply = out.to(connection);
  put_store_i64(reply, queue == queues_.end() ? 0 : static_cast<std::int64_t>(queue->second.size()));
  if (queue == queues_.end()) return;
  const std::string& front = queue->second.front();
  put_store_bytes(reply, front);
  bytes_ -= kItemBytes + front.capacity();
  queue->second.pop_front();
  if (queue->second.empty()) {
    bytes_ -= kQueueBytes + key.size();
    queues_.erase(queue);
  }
}

std::string_view StoreCore::value_of(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? std::string_view() : std::string_view(found->second);
}

bool StoreCore::present(std::string_view key) const {
  return values_.find(key) != values_.end() || (!queues_.empty() && queues_.find(key) != queues_.end());
}

}  // namespace dtrain
