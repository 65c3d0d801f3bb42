#include "test/sim/store_model.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <stdexcept>
#include <utility>

namespace dtrain::sim {

namespace {

constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();

std::string i64(std::int64_t value) {
  std::string out;
  put_store_i64(out, value);
  return out;
}

std::string text(const std::string& value) { return i64(std::int64_t(value.size())) + value; }

std::optional<std::int64_t> decimal(const std::string& text) {
  const std::string digits = text.substr(text.starts_with('-') ? 1 : 0);
  if (digits.empty() || digits.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  try {
    return std::stoll(text);
  } catch (const std::out_of_range&) {
    return std::nullopt;
  }
}

}  // namespace

std::string encode(const StoreCall& call) {
  if (call.garbage) return "\xff";
  std::string out(1, char(call.op));
  switch (call.op) {
    case StoreOp::validate:
    case StoreOp::ping:
      put_store_u32(out, std::uint32_t(call.number));
      return out;
    case StoreOp::check:
    case StoreOp::wait:
    case StoreOp::multi_get:
      out += i64(std::int64_t(call.fields.size()));
      break;
    case StoreOp::multi_set:
      out += i64(std::int64_t(call.fields.size() / 2));
      break;
    default:
      break;
  }
  for (const std::string& field : call.fields) out += text(field);
  if (call.op == StoreOp::add || call.op == StoreOp::barrier) out += i64(call.number);
  return out;
}

StoreModel::Answer StoreModel::apply(ConnectionId from, const StoreCall& call) {
  answer_ = {};
  const std::string key = call.fields.empty() ? "" : call.fields[0];
  if (call.garbage) answer_.closes = true;  // its wait goes with the connection
  if (!call.garbage) switch (call.op) {
      case StoreOp::validate:
        refuse(from);
        break;
      case StoreOp::set:
        room(key) ? write(key, call.fields[1]) : refuse(from);
        break;
      case StoreOp::append:
        room(key) ? write(key, value(key) + call.fields[1]) : refuse(from);
        break;
      case StoreOp::compare_set:
        compare_set(from, call);
        break;
      case StoreOp::get:
        say(from, text(value(key)));
        break;
      case StoreOp::add:
        add(from, call);
        break;
      case StoreOp::check: {
        const bool all = std::ranges::all_of(call.fields, [this](const std::string& k) { return present(k); });
        say(from, {all ? kStoreReady : kStoreNotReady});
        break;
      }
      case StoreOp::wait:
        wait(from, call);
        break;
      case StoreOp::num_keys:
        say(from, i64(std::int64_t(values_.size())));
        break;
      case StoreOp::delete_key:
        say(from, i64(std::int64_t(values_.erase(key))));
        break;
      case StoreOp::multi_get: {
        std::string all;
        for (const std::string& k : call.fields) all += text(value(k));
        all.size() > limits_.reply_bytes ? refuse(from) : say(from, all);
        break;
      }
      case StoreOp::multi_set:
        multi_set(from, call);
        break;
      case StoreOp::cancel_wait:
        leave(from);
        say(from, {kStoreWaitCanceled});
        break;
      case StoreOp::ping:
        say(from, i64(call.number).substr(0, 4));
        break;
      case StoreOp::queue_push:
        push(from, call);
        break;
      case StoreOp::queue_pop:
        pop(from, key);
        break;
      case StoreOp::queue_len:
        say(from, i64(queues_.contains(key) ? std::int64_t(queues_[key].size()) : 0));
        break;
      case StoreOp::list_keys:
        list(from);
        break;
      case StoreOp::barrier:
        barrier(from, call);
        break;
    }
  return std::exchange(answer_, {});
}

void StoreModel::leave(ConnectionId connection) {
  if (owed_.erase(connection) == 0) return;
  for (Waiters* waiters : {&waiting_, &arrived_}) {
    for (auto& [key, them] : *waiters) std::erase(them, connection);
    std::erase_if(*waiters, [](const auto& entry) { return entry.second.empty(); });
  }
}

std::size_t StoreModel::waiting_for_keys() const {
  std::size_t in_barrier = 0;
  for (const auto& [key, them] : arrived_) in_barrier += them.size();
  return owed_.size() - in_barrier;
}

std::size_t StoreModel::least_bytes() const {
  std::size_t bytes = 0;
  for (const auto& [key, value] : values_) bytes += key.size() + value.size();
  for (const auto& [key, items] : queues_)
    for (const std::string& item : items) bytes += item.size();
  return bytes;
}

std::size_t StoreModel::most_bytes(const StoreCall& call) const {
  std::size_t bytes = 2000;
  for (const std::string& field : call.fields) bytes += 2 * (field.size() + value(field).size()) + 500;
  return bytes;
}

void StoreModel::refuse(ConnectionId connection) {
  leave(connection);
  answer_.closes = true;
}

// Whoever waits for a value has it missing: the first write is the one that wakes.
void StoreModel::write(const std::string& key, const std::string& value) {
  values_[key] = value;
  wake(waiting_, key, kAll);
}

void StoreModel::wake(Waiters& waiters, const std::string& key, std::size_t most) {
  for (; most > 0 && waiters.contains(key); --most) {
    auto& them = waiters[key];
    const ConnectionId first = them.front();
    them.pop_front();
    if (them.empty()) waiters.erase(key);
    if (--owed_.at(first) > 0) continue;
    owed_.erase(first);
    say(first, {kStoreStopWaiting});
  }
}

void StoreModel::add(ConnectionId from, const StoreCall& call) {
  const std::string& key = call.fields[0];
  const auto before = values_.contains(key) ? decimal(values_[key]) : 0;
  std::int64_t sum = 0;
  if (!before || !room(key) || __builtin_add_overflow(*before, call.number, &sum)) return refuse(from);
  write(key, std::to_string(sum));
  say(from, i64(sum));
}

void StoreModel::compare_set(ConnectionId from, const StoreCall& call) {
  const std::string &key = call.fields[0], &expected = call.fields[1], &desired = call.fields[2];
  const bool there = values_.contains(key);
  if (there ? values_[key] != expected : !expected.empty()) return say(from, text(there ? values_[key] : expected));
  if (!room(key)) return refuse(from);
  write(key, desired);
  say(from, text(desired));
}

// As if all its keys were new, and all or none.
void StoreModel::multi_set(ConnectionId from, const StoreCall& call) {
  if (keys_and_queues() + call.fields.size() / 2 > limits_.keys) return refuse(from);
  for (std::size_t i = 0; i < call.fields.size(); i += 2) write(call.fields[i], call.fields[i + 1]);
}

void StoreModel::wait(ConnectionId from, const StoreCall& call) {
  if (owed_.contains(from)) return refuse(from);
  for (const std::string& key : call.fields) {
    if (present(key)) continue;
    waiting_[key].push_back(from);
    ++owed_[from];
  }
  if (!owed_.contains(from)) say(from, {kStoreStopWaiting});
}

void StoreModel::barrier(ConnectionId from, const StoreCall& call) {
  const std::string& key = call.fields[0];
  const auto before = values_.contains(key) ? decimal(values_[key]) : 0;
  const bool counts = before && *before >= 0 && *before < std::numeric_limits<std::int64_t>::max();
  if (owed_.contains(from) || !counts || !room(key)) return refuse(from);
  write(key, std::to_string(*before + 1));
  if (*before + 1 >= call.number) {
    wake(arrived_, key, kAll);
    return say(from, {kStoreStopWaiting});
  }
  arrived_[key].push_back(from);
  owed_[from] = 1;
}

// An item is for one: of those who wait, the one that has waited longest.
void StoreModel::push(ConnectionId from, const StoreCall& call) {
  const std::string& key = call.fields[0];
  if (!queues_.contains(key) && keys_and_queues() >= limits_.keys) return refuse(from);
  queues_[key].push_back(call.fields[1]);
  wake(waiting_, key, 1);
}

void StoreModel::pop(ConnectionId from, const std::string& key) {
  if (!queues_.contains(key)) return say(from, i64(0));
  auto& items = queues_[key];
  say(from, i64(std::int64_t(items.size())) + text(items.front()));
  items.pop_front();
  if (items.empty()) queues_.erase(key);
}

void StoreModel::list(ConnectionId from) {
  std::string all = i64(std::int64_t(values_.size()));
  for (const auto& [key, value] : values_) all += text(key);
  if (all.size() > limits_.reply_bytes) return refuse(from);
  answer_.replies.push_back({from, all, true});
}

}  // namespace dtrain::sim
