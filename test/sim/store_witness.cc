#include "test/sim/store_witness.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

namespace dtrain::sim {

namespace {

constexpr std::size_t kPingBytes = 5;

std::uint32_t number_of(std::string_view ping) {
  std::uint32_t number = 0;
  std::memcpy(&number, ping.data() + 1, sizeof number);
  return number;
}

std::int64_t i64_of(std::string_view bytes) {
  std::int64_t value = 0;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

// The keys of a LIST_KEYS' reply.
std::vector<std::string_view> sorted_keys(std::string_view reply) {
  std::vector<std::string_view> keys;
  for (reply.remove_prefix(8); reply.size() >= 8;) {
    const auto size = std::size_t(i64_of(reply));
    keys.push_back(reply.substr(8, size));
    reply.remove_prefix(std::min(reply.size(), 8 + size));
  }
  std::ranges::sort(keys);
  return keys;
}

bool same(const StoreModel::Reply& due, std::string_view said) {
  if (said == due.bytes) return true;
  return due.any_order && said.substr(0, 8) == std::string_view(due.bytes).substr(0, 8) &&
         sorted_keys(said) == sorted_keys(due.bytes);
}

}  // namespace

StoreStats StoreWitness::stats() const {
  StoreStats stats;
  store_.describe(stats);
  return stats;
}

void StoreWitness::connect(ConnectionId connection) {
  if (!connections_.try_emplace(connection).second) throw StoreBroken("a connection's id is used twice");
  store_.connect(connection);
}

void StoreWitness::disconnect(ConnectionId connection) {
  model_.leave(connection);
  connections_.erase(connection);
  store_.disconnect(connection);
  check();
}

void StoreWitness::renew() {
  if (!connections_.empty()) throw StoreBroken("a round's connections are still there when the next one begins");
  store_.renew();
  model_ = StoreModel(limits_.core);
  counted_.clear();
  check();
}

void StoreWitness::receive(ConnectionId id, std::string_view& input, StoreActions& out) {
  const auto found = connections_.find(id);
  if (found == connections_.end() || found->second.closed) throw StoreBroken("bytes of a connection that has ended");
  const std::size_t sends = out.send_count(), size = out.size(), closes = out.closes().size();
  const std::size_t memory = stats().bytes;
  const std::string_view before = input;
  store_.receive(id, input, out);

  took(found->second, id, before.substr(0, before.size() - input.size()));
  const std::string* closed = out.closes().size() > closes ? &out.closes().back().reason : nullptr;
  if (closed && out.closes().back().connection != id) throw StoreBroken("somebody else's connection is closed");
  StoreClient* client = found->second.client;
  while (client && client->carried_out < client->calls.size() && client->ends[client->carried_out] <= client->taken &&
         !found->second.closed) {
    const bool last =
        client->carried_out + 1 == client->calls.size() || client->ends[client->carried_out + 1] > client->taken;
    carry_out(found->second, id, last, closed, memory);
  }
  if (closed && !found->second.closed) throw StoreBroken("a connection is closed for no reason: " + *closed);

  // What was there before may have grown at its end.
  std::size_t begin = 0;
  for (std::size_t i = 0; i < out.send_count(); ++i) {
    const std::string_view bytes = out.send_bytes(i);
    const std::size_t skip = i + 1 >= sends && begin < size ? std::min(bytes.size(), size - begin) : 0;
    if (i >= sends || (i + 1 == sends && skip < bytes.size())) said(out.send_to(i), bytes.substr(skip));
    begin += bytes.size();
  }
  for (const auto& [connection, there] : connections_)
    if (!there.due.empty()) throw StoreBroken(fmt::format("client {} is owed an answer", there.client->number));
  check();
}

// They must be the next that this client has sent, and it a client of the round that is open.
void StoreWitness::took(Connection& connection, ConnectionId id, std::string_view bytes) {
  if (!connection.client) {
    connection.first += bytes;
    if (connection.first.size() < kPingBytes) return;
    const auto client = expected_.find(number_of(connection.first));
    if (client == expected_.end() || client->second->connection != 0) throw StoreBroken("nobody sent that");
    connection.client = client->second;
    connection.client->connection = id;
    bytes = connection.first;
  }
  StoreClient& client = *connection.client;
  if (client.round != round_)
    throw StoreBroken(fmt::format("round {} carries out a request of round {}", round_, client.round));
  if (client.taken + bytes.size() > client.sent ||
      std::string_view(client.sends).substr(client.taken, bytes.size()) != bytes)
    throw StoreBroken(fmt::format("client {} has not sent that", client.number));
  client.taken += bytes.size();
}

// `last`: of those that came together, which is the only one that can have been refused.
void StoreWitness::carry_out(Connection& connection, ConnectionId id, bool last, const std::string* closed,
                             std::size_t bytes) {
  StoreClient& client = *connection.client;
  const StoreCall& call = client.calls[client.carried_out++];
  ++carried_out_;
  const bool full = last && closed && *closed == "store is full (bytes)";
  StoreModel::Answer answer;
  if (full) {
    // How much memory a store needs is its own business, within reason.
    if (std::max(bytes, stats().bytes) + model_.most_bytes(call) < limits_.core.bytes)
      throw StoreBroken(fmt::format("it is not full with {} bytes", bytes));
    model_.leave(id);
    answer.closes = true;
  } else {
    answer = model_.apply(id, call);
  }
  if (answer.closes != (last && closed != nullptr))
    throw StoreBroken(fmt::format("client {}: {}", client.number, closed ? *closed : "a request is not refused"));
  if (answer.closes) {
    connection.closed = true;
    client.may_end = *closed;
  }
  for (auto& reply : answer.replies) {
    if (reply.to != id) ++woken_;
    if (counts(call) && reply.bytes.size() == 8) check_counter(call, reply.bytes);
    if (!reply.bytes.empty()) connections_.at(reply.to).due.push_back(std::move(reply));
  }
}

// Exactly what is due, and nothing to anybody else.
void StoreWitness::said(ConnectionId to, std::string_view bytes) {
  const auto found = connections_.find(to);
  if (found == connections_.end() || !found->second.client) throw StoreBroken("an answer to nobody");
  found->second.client->answers += bytes;
  while (!bytes.empty()) {
    auto& due = found->second.due;
    if (due.empty() || !same(due.front(), bytes.substr(0, due.front().bytes.size())))
      throw StoreBroken(fmt::format("client {} is told what it must not be", found->second.client->number));
    bytes.remove_prefix(due.front().bytes.size());
    due.pop_front();
  }
}

// No value twice, and each next one.
void StoreWitness::check_counter(const StoreCall& call, std::string_view reply) {
  auto& values = counted_[call.fields[0]];
  const bool fresh = values.insert(i64_of(reply)).second;
  if (!fresh || *values.rbegin() != std::int64_t(values.size())) throw StoreBroken("ADD is not atomic");
}

void StoreWitness::check() const {
  const StoreStats now = stats();
  if (!store_.consistent()) throw StoreBroken("the store is not consistent");
  if (now.keys != model_.values().size())
    throw StoreBroken(fmt::format("{} keys, not {}", now.keys, model_.values().size()));
  if (now.connections_waiting != model_.waiting())
    throw StoreBroken(fmt::format("{} connections wait, not {}", now.connections_waiting, model_.waiting()));
  if (model_.keys_and_queues() > limits_.core.keys) throw StoreBroken("too many keys");
  if (model_.empty() && now.bytes > 0) throw StoreBroken(fmt::format("an empty store holds {} bytes", now.bytes));
  if (now.bytes > limits_.core.bytes || now.bytes < model_.least_bytes())
    throw StoreBroken(fmt::format("{} bytes: at least {} are needed, {} allowed", now.bytes, model_.least_bytes(),
                                  limits_.core.bytes));
}

}  // namespace dtrain::sim
