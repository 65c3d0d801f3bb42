// The nodes of a StoreWorld, and what is between them.
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "test/sim/store_world.h"

namespace dtrain::sim {

namespace {

// What the network holds of one direction of a link.
constexpr std::size_t kUnderWay = std::size_t{1} << 19;

// Give it any address.
void name(const UniqueFd& socket) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address.sun_family) != 0)
    throw StoreBroken("no address");
}

// A front reads only if it listens somewhere. Nobody connects to it.
UniqueFd nowhere() {
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  name(socket);
  if (::listen(socket.get(), 1) != 0) throw StoreBroken("no socket to listen at");
  return socket;
}

std::pair<UniqueFd, UniqueFd> pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) throw StoreBroken("no sockets");
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

}  // namespace

void StoreWorld::make_node(std::size_t number) {
  Node& node = *nodes_.emplace_back(std::make_unique<Node>());
  node.options.limits = limits_;
  std::unique_ptr<StoreWitness> store;
  if (number == 0) {
    store = std::make_unique<StoreWitness>(limits_);
    witness_ = store.get();
  } else {
    StoreRemote& remote = node.options.remote.emplace();
    remote.timeout = std::chrono::hours(24);
    remote.connect = [this, number]() -> Result<UniqueFd> { return connect(number); };
    remote.lost = [this, number](std::uint64_t, const std::string& why) { link_lost(number, why); };
  }
  node.service = std::make_unique<StoreService>(node.io, nowhere(), std::nullopt, node.options, std::move(store));
}

void StoreWorld::begin(std::size_t number) {
  Node& node = *nodes_[number];
  may_end(number, "another round has begun");
  node.round = round_;
  node.due = node.lost = false;
  note(fmt::format("node {} begins round {}", number, round_));
  if (number == 0) {
    ++begun_;
    ++tally_.rounds;
    witness_->begin_round(round_);
  }
  node.service->begin_round(round_);
}

void StoreWorld::renew_host() {
  note("the host closes its store");
  may_end(0, "the store is closed");
  host().round = 0;
  host().due = true;
  ++begun_;
  host().service->begin_round(std::nullopt);
}

// ---- links ----------------------------------------------------------------------------------------------------------

UniqueFd StoreWorld::connect(std::size_t number) {
  auto [edge, edge_far] = pair();
  name(edge_far);  // two ends without any would pass for one that has met itself
  auto [host_near, host_far] = pair();
  links_.push_back(
      {.node = number, .edge = std::move(edge_far), .host = std::move(host_far), .arriving = std::move(host_near)});
  nodes_[number]->begun = begun_;
  nodes_[number]->may_lose = false;
  return std::move(edge);
}

// Only for what has happened.
void StoreWorld::link_lost(std::size_t number, const std::string& why) {
  Node& node = *nodes_[number];
  note(fmt::format("node {}: {}", number, why));
  if (!node.may_lose && node.begun == begun_ && node.round == host().round)
    throw StoreBroken(fmt::format("node {} loses its link: {}", number, why));
  node.lost = true;
  may_end(number, why);
}

// Some of what is under way, or all. False: there was nothing.
bool StoreWorld::carry(Link& link, bool whole) {
  if (link.silent) return false;
  if (link.arriving) {
    host().service->links()->adopt(std::move(link.arriving), {}, std::nullopt);
    return true;
  }
  const std::size_t piece = whole ? buffer_.size() : a_piece();
  const bool out = (whole || one_in(2)) && carry(link.edge, link.host, link.out, piece);
  const bool back = (whole || one_in(2)) && carry(link.host, link.edge, link.back, piece);
  return out || back;
}

bool StoreWorld::carry(UniqueFd& from, UniqueFd& to, Way& way, std::size_t piece) {
  bool more = false;
  if (!way.ended && way.held.size() < kUnderWay) {
    const ssize_t size = ::recv(from.get(), buffer_.data(), std::min(piece, buffer_.size()), 0);
    way.ended = size == 0 || (size < 0 && errno != EAGAIN);
    if (size > 0) way.held.append(buffer_.data(), std::size_t(size));
    more = size > 0 || way.ended;
  }
  if (!way.held.empty()) {
    const ssize_t size = ::send(to.get(), way.held.data(), std::min(piece, way.held.size()), MSG_NOSIGNAL);
    if (size < 0 && errno != EAGAIN) way.held.clear();  // nobody is there to read it
    if (size > 0) way.held.erase(0, std::size_t(size));
    more |= size > 0 || way.held.empty();
  }
  if (way.ended && way.held.empty() && !way.shut) {
    ::shutdown(to.get(), SHUT_WR);
    way.shut = more = true;
  }
  return more;
}

// What was under way is lost. It may be that only one end notices.
void StoreWorld::cut() {
  if (links_.empty()) return;
  const auto link = std::next(links_.begin(), draw(0, int(links_.size()) - 1));
  ++tally_.cuts;
  nodes_[link->node]->may_lose = true;
  const int what = draw(0, 3);
  note(fmt::format("a link of node {} is cut ({})", link->node, what));
  if (what > 1) return void(links_.erase(link));
  link->silent = true;
  link->arriving.reset();
  (what == 0 ? link->edge : link->host).reset();
}

}  // namespace dtrain::sim
