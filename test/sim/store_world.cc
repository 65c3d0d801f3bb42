#include "test/sim/store_world.h"

#include <fmt/format.h>

#include <algorithm>

namespace dtrain::sim {

namespace {

constexpr std::size_t kWhole = std::size_t{1} << 18;
// A history comes to rest long before that.
constexpr int kRestless = 20'000;

}  // namespace

StoreWorld::Tally& StoreWorld::Tally::operator+=(const Tally& other) {
  clients += other.clients, requests += other.requests, woken += other.woken;
  refused += other.refused, rounds += other.rounds, cuts += other.cuts;
  return *this;
}

StoreWorld::StoreWorld(std::uint64_t seed) : random_(seed), buffer_(kWhole) {
  large_ = one_in(40);
  keys_ = draw(1, 5);
  window_ = large_ ? 16 : one_in(2) ? 1 : draw(2, 6);
  piece_ = large_ ? kWhole : std::vector<std::size_t>{7, 60, 400, 5000}[std::size_t(draw(0, 3))];
  most_clients_ = some(10);
  steps_ = draw(200, large_ ? 400 : 1500);
  rarely_ = draw(30, 300);
  if (!large_ && one_in(5)) limits_.core.keys = std::size_t(draw(2, 8));
  if (!large_ && one_in(5)) limits_.core.bytes = std::size_t(draw(2000, 12000));
  if (!large_ && one_in(5)) limits_.core.reply_bytes = std::size_t(draw(50, 500));
  if (one_in(8)) limits_.link_connections = some(3);
  limited_ = limits_.core.keys < 100 || limits_.core.bytes < 100'000;
  // Nothing here takes time, and no clock may decide anything.
  limits_.greeting = std::chrono::hours(24);
  const int edges = draw(0, 3);
  for (int i = 0; i <= edges; ++i) make_node(std::size_t(i));
}

void StoreWorld::run() {
  for (std::size_t i = 0; i < nodes_.size(); ++i) begin(i);
  for (int i = 0; i < steps_; ++i) step();
  heal();
  settle();
  check_answered();
  for (std::size_t i = 0; i < nodes_.size(); ++i) come(i);
  for (int i = 0; i < 10; ++i)
    for (Client* client : here_) ask(*client, any_call());
  settle();
  check_answered();
  wake_all();
  all_leave();
  tally_.requests = witness_->carried_out();
  tally_.woken = witness_->woken();
}

void StoreWorld::step() {
  const int what = draw(0, 99);
  if (what < 35) {
    Node& node = *nodes_[any_node()];
    for (int i = draw(1, 5); i > 0 && node.io.poll_one() > 0; --i) continue;
  } else if (what < 75) {
    if (!here_.empty()) act(*here_[some(here_.size()) - 1]);
  } else if (what < 94) {
    if (links_.empty()) return;
    const auto link = std::next(links_.begin(), draw(0, int(links_.size()) - 1));
    carry(*link, false);
    if (link->out.shut && link->back.shut) links_.erase(link);
  } else if (what < 96) {
    if (here_.size() < most_clients_) come(any_node());
  } else if (what < 98) {
    const std::size_t node = any_node();
    // Almost always the host begins first.
    if ((nodes_[node]->due || nodes_[node]->lost) && (node == 0 || !host().due || one_in(8))) begin(node);
  } else if (!here_.empty() && one_in(3)) {
    vanish(*here_[some(here_.size()) - 1]);
  } else if (one_in(4)) {
    all_ask(any_node());
  } else if (one_in(rarely_ / 10)) {
    cut();
  } else if (one_in(rarely_ / 5)) {
    if (one_in(3)) renew_host();
    ++round_;
    for (auto& node : nodes_) node->due = true;
    if (!one_in(8)) begin(0);
  }
}

// From here on the network carries all, and every node comes to the job's round.
void StoreWorld::heal() {
  settle();
  check_told();
  note("all is well again");
  if (host().due) begin(0);
  for (const Link& link : links_)
    if (link.silent) nodes_[link.node]->lost = true;
  for (std::size_t i = 1; i < nodes_.size(); ++i)
    if (nodes_[i]->due || nodes_[i]->lost || nodes_[i]->may_lose) begin(i);
  links_.remove_if([](const Link& link) { return link.silent; });
  settle();
  for (std::size_t i = 1; i < nodes_.size(); ++i)
    if (nodes_[i]->due || nodes_[i]->lost) begin(i);
}

// Until there is nothing left to carry, and no loop has anything to do.
void StoreWorld::settle() {
  bool more = true;
  for (int turn = 0; more; ++turn) {
    if (turn == kRestless) throw StoreBroken("it does not come to rest");
    more = false;
    for (auto& node : nodes_) more |= node->io.poll() > 0;
    for (auto link = links_.begin(); link != links_.end();) {
      more |= carry(*link, true);
      link = link->out.shut && link->back.shut ? links_.erase(link) : std::next(link);
    }
    const auto here = here_;
    for (Client* client : here) {
      more |= write(*client, kWhole);
      if (client->socket) more |= read(*client, kWhole);
    }
  }
}

// Whose connection has to end has seen it end, but for those behind a cut that their node has not noticed.
void StoreWorld::check_told() const {
  for (const Client* client : here_)
    if (const Node& node = *nodes_[client->node]; !client->may_end.empty() && (node.lost || !node.may_lose))
      throw StoreBroken(fmt::format("client {} is not told: {}", client->number, client->may_end));
}

void StoreWorld::check_answered() const {
  check_told();
  for (const Client* client : here_) {
    if (client->carried_out < client->calls.size())
      throw StoreBroken(fmt::format("a request of client {} is not carried out", client->number));
    if (client->got < client->answers.size())
      throw StoreBroken(fmt::format("an answer to client {} does not arrive", client->number));
  }
}

// A WAIT ends when its keys are there.
void StoreWorld::wake_all() {
  if (limited_) return;
  come(0);
  Client& client = clients_.back();
  for (const char kind : {'k', 'q', 'b'})
    for (int i = 0; i < keys_; ++i) ask(client, {StoreOp::set, {fmt::format("{}{}", kind, i), "1"}});
  for (int i = 0; i < keys_; ++i) ask(client, {StoreOp::add, {fmt::format("n{}", i)}, 1});
  settle();
  check_answered();
  if (witness_->model().waiting_for_keys() > 0) throw StoreBroken("somebody waits for keys that are there");
}

// Then nothing is left of them, and of their round nothing when the next one begins.
void StoreWorld::all_leave() {
  come(0);
  const StoreModel& model = witness_->model();
  for (const auto& [key, value] : model.values()) ask(clients_.back(), {StoreOp::delete_key, {key}});
  for (const auto& [key, items] : model.queues())
    for (std::size_t i = 0; i < items.size(); ++i) ask(clients_.back(), {StoreOp::queue_pop, {key}});
  settle();
  while (!here_.empty()) vanish(*here_.back());
  settle();
  const StoreStats stats = host().service->stats();
  if (stats.connections_open + stats.link_connections + stats.connections_waiting > 0)
    throw StoreBroken("connections are left");
  if (stats.links + 1 != nodes_.size()) throw StoreBroken(fmt::format("{} links are up", stats.links));
  if (!model.empty() || stats.bytes > 0) throw StoreBroken("something is left");
  come(0);
  ask(clients_.back(), {StoreOp::set, {"k0", "old"}});
  settle();
  ++round_;
  begin(0);
  const StoreStats fresh = host().service->stats();
  if (fresh.keys + fresh.bytes + fresh.links > 0) throw StoreBroken("a new round finds something");
}

}  // namespace dtrain::sim
