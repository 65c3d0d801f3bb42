// What the clients of a StoreWorld do.
#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "test/sim/store_world.h"

namespace dtrain::sim {

namespace {

std::string greeting() {
  std::string bytes(1, char(StoreOp::validate));
  put_store_u32(bytes, kStoreMagic);
  return bytes;
}

}  // namespace

void StoreWorld::come(std::size_t number) {
  Node& node = *nodes_[number];
  if (node.round == 0 || node.lost) return;
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) throw StoreBroken("no sockets");
  Client& client = clients_.emplace_back();
  client.number = std::uint32_t(++tally_.clients);
  client.node = number;
  client.round = node.round;
  client.may_be_refused = number > 0 && limits_.link_connections < 100;
  client.socket = UniqueFd(ends[0]);
  witness_->expect(client);
  here_.push_back(&client);
  note(fmt::format("client {} comes to node {}", client.number, number));
  ask(client, {StoreOp::ping, {}, client.number});
  node.service->clients().adopt(UniqueFd(ends[1]));
}

bool StoreWorld::may_ask(const Client& client) const {
  if (window_ > 1) return client.calls.size() < client.carried_out + std::size_t(window_);
  return client.got == client.answers.size() && client.carried_out == client.calls.size();
}

void StoreWorld::act(Client& client) {
  if (may_ask(client)) {
    if (!witness_->model().waits(client.connection)) {
      ask(client, any_call());
    } else if (one_in(30)) {  // torch's client sends nothing then, but to give up
      ask(client, one_in(8) ? any_call() : StoreCall{StoreOp::cancel_wait});
    }
  }
  if (one_in(2)) write(client, a_piece());
  if (one_in(2)) read(client, a_piece());
}

// One value, as when workers read what one of them has set.
void StoreWorld::all_ask(std::size_t node) {
  const std::string key = any_key("k");
  for (Client* client : here_) {
    if (client->node != node || !may_ask(*client) || witness_->model().waits(client->connection)) continue;
    ask(*client, {StoreOp::get, {key}});
    write(*client, buffer_.size());
  }
}

void StoreWorld::ask(Client& client, const StoreCall& call) {
  if (!client.calls.empty() && client.calls.back().garbage) return;
  client.calls.push_back(call);
  client.sends += encode(call);
  client.ends.push_back(client.sends.size());
  note(fmt::format("client {} asks {} {} {}", client.number, int(call.op),
                   call.fields.empty() ? "" : call.fields.front(), call.number));
}

std::string StoreWorld::any_key(std::string_view kinds) {
  const char kind = kinds[some(kinds.size()) - 1];
  return fmt::format("{}{}", kind, draw(0, keys_ - 1));
}

std::vector<std::string> StoreWorld::any_keys(std::string_view kinds) {
  std::vector<std::string> keys(std::size_t(one_in(10) ? 0 : one_in(4) ? draw(2, 4) : 1));
  for (std::string& key : keys) key = any_key(kinds);
  return keys;
}

// Hardly any two are the same.
std::string StoreWorld::any_value() {
  if (one_in(4)) return one_in(2) ? "" : std::to_string(draw(-2, 3));
  std::string value = fmt::format("value {}", ++values_);
  const std::size_t size = large_ ? 300'000 : std::vector<std::size_t>{1, 30, 70, 300, 2000}[std::size_t(draw(0, 4))];
  const auto filling = char('a' + draw(0, 25));
  if (value.size() < size) value.resize(some(size), filling);
  return value;
}

// Keys: k... for anything, n... are counters that only ADD 1 changes, q... are queues, b... barriers. Now and then
// somebody takes one for another.
StoreCall StoreWorld::any_call() {
  const std::string_view keys = one_in(30) ? "kqb" : "k", queues = one_in(30) ? "kqb" : "q";
  const std::string_view barriers = one_in(30) ? "kqb" : "b", all = "knqb";
  using enum StoreOp;
  if (large_ && one_in(2)) return {get, {any_key("k")}};  // more than a link holds
  switch (draw(0, 24)) {
    case 0:
    case 1:
    case 2:
      return {set, {any_key(keys), any_value()}};
    case 3:
      return {compare_set, {any_key(keys), one_in(2) ? "" : "1", any_value()}};
    case 4:
    case 5:
    case 6:
      return {get, {any_key(all)}};
    case 7:
    case 8:
      return {add, {any_key("n")}, 1};
    case 9:
      return {add, {any_key("kb")}, draw(-3, 3)};
    case 10:
      return {check, any_keys(all)};
    case 11:
    case 12:
      return {wait, any_keys(all)};
    case 13:
      return {num_keys};
    case 14:
    case 15:
    case 16:
      return {delete_key, {any_key("kkkqb")}};
    case 17:
      return {append, {any_key(keys), any_value()}};
    case 18:
      return {multi_get, any_keys(all)};
    case 19: {
      StoreCall call{multi_set};
      for (std::string& key : any_keys(keys)) call.fields.insert(call.fields.end(), {std::move(key), any_value()});
      return call;
    }
    case 20:
      return {barrier, {any_key(barriers)}, draw(1, 3)};
    case 21:
      return {queue_push, {any_key(queues), any_value()}};
    case 22:
      return {queue_pop, {any_key(queues)}};
    case 23:
      return {one_in(2) ? queue_len : delete_key, {any_key(queues)}};
    default:
      if (one_in(20)) return {.garbage = true};
      return one_in(3) ? StoreCall{cancel_wait} : one_in(2) ? StoreCall{list_keys} : StoreCall{ping, {}, draw(0, 99)};
  }
}

// False: nothing could be written.
bool StoreWorld::write(Client& client, std::size_t most) {
  const std::string hello = greeting();
  const bool greeted = client.written >= hello.size();
  const std::string_view left = std::string_view(greeted ? client.sends : hello)
                                    .substr(greeted ? client.written - hello.size() : client.written, most);
  if (left.empty() || !client.socket) return false;
  const ssize_t size = ::send(client.socket.get(), left.data(), left.size(), MSG_NOSIGNAL);
  if (size < 0) return false;  // it is full; or nobody reads it any more, which read() will see
  client.written += std::size_t(size);
  client.sent = client.written - std::min(client.written, hello.size());
  return true;
}

// False: nothing came.
bool StoreWorld::read(Client& client, std::size_t most) {
  const ssize_t size = ::recv(client.socket.get(), buffer_.data(), std::min(most, buffer_.size()), 0);
  if (size < 0 && errno == EAGAIN) return false;
  if (size <= 0) {
    if (client.may_end.empty() && !(client.may_be_refused && client.connection == 0))
      throw StoreBroken(fmt::format("client {} is turned away", client.number));
    ++tally_.refused;
    vanish(client);
    return true;
  }
  const std::string_view bytes(buffer_.data(), std::size_t(size));
  if (client.answers.compare(client.got, bytes.size(), bytes) != 0)
    throw StoreBroken(fmt::format("client {} hears what it was not told", client.number));
  client.got += bytes.size();
  note(fmt::format("client {} has {} bytes", client.number, client.got));
  return true;
}

void StoreWorld::vanish(Client& client) {
  note(fmt::format("client {} is gone", client.number));
  client.socket.reset();
  std::erase(here_, &client);
}

void StoreWorld::may_end(std::size_t node, const std::string& why) {
  for (Client* client : here_)
    if (client->node == node) client->may_end = why;
}

}  // namespace dtrain::sim
