#include "rendezvous/store_server/store_clients.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <string>
#include <utility>

#include "rendezvous/net/watch.h"
#include "rendezvous/tls/link_stream.h"

namespace dtrain {

namespace asio = boost::asio;

namespace {

constexpr int kAcceptsPerTurn = 64;
// A client that is full does not read its replies, and is not read from either until it has taken them all.
constexpr LinkStreamLimits kClientLimits{.read_bytes = LinkStream::kMostReadBytes, .reads_per_turn = 8};

}  // namespace

class StoreClients::Client final : public LinkStream {
 public:
  Client(StoreClients& all, asio::posix::stream_descriptor socket, ConnectionId number, const StoreWireLimits& limits)
      : LinkStream(std::move(socket), LinkBytes(), kClientLimits),
        id(number),
        greeting(std::in_place, limits),
        all_(all) {}

  using LinkStream::hand_over;
  using LinkStream::queue;
  using LinkStream::read_now;
  using LinkStream::release;
  using LinkStream::resume;
  using LinkStream::write;

  const ConnectionId id;
  std::optional<StoreDecoder> greeting;  // until it has greeted; then the backend decodes
  std::optional<SilentClients::Place> silent;
  std::size_t accounted = 0;  // its share of buffered_bytes_
  bool heard = false;         // something has come

 private:
  void received(std::string_view bytes) override {
    all_.received(*this, bytes);
    if (!open()) all_.callbacks_.publish();  // no turn follows
  }
  std::size_t room() override { return all_.room(*this); }
  void turn() override { all_.callbacks_.publish(); }
  void written() override {
    all_.account(*this);
    all_.callbacks_.publish();
  }
  void drained() override { resume(); }
  // A client that has left is no fault, however it went.
  void closed(LinkBytes::Status, const std::string&) override {
    all_.close(*this, "");
    all_.callbacks_.publish();
  }

  StoreClients& all_;
};

StoreClients::StoreClients(asio::io_context& io, UniqueFd listener, std::optional<PeerUid> peer_uid,
                           const StoreOptions& options, StoreBackend& backend, StoreSwitch& outlets,
                           Callbacks callbacks)
    : io_(io),
      peer_uid_(std::move(peer_uid)),
      options_(options),
      backend_(backend),
      outlets_(outlets),
      callbacks_(std::move(callbacks)),
      silent_(io, options.limits.greeting, [this](ConnectionId id) {
        close(id, "no greeting in time");
        callbacks_.publish();
      }) {
  if (!listener) return;
  acceptor_.emplace(io, asio::posix::stream_descriptor(io, listener.release()),
                    Acceptor::Options{.most_a_turn = kAcceptsPerTurn,
                                      .accepted = [this](UniqueFd fd) { admit(std::move(fd)); },
                                      .no_room = [this](const Error& why) { return make_room(why); },
                                      .turn = callbacks_.publish});
}

StoreClients::~StoreClients() = default;

void StoreClients::start() {
  if (acceptor_) acceptor_->resume();
}

void StoreClients::begin_round() {
  begun_ = true;
  close_all();
}

void StoreClients::close_all() {
  while (!clients_.empty()) close(*clients_.begin()->second, "");
  stalled_.clear();
}

void StoreClients::resume() {
  for (const ConnectionId id : std::exchange(stalled_, {})) {
    const auto found = clients_.find(id);
    if (found != clients_.end()) found->second->resume();
  }
}

// ---- who is let in --------------------------------------------------------------------------------------------------

void StoreClients::admit(UniqueFd fd) {
  ++accepted_;
  if (peer_uid_) {
    const Result<uid_t> uid = peer_uid_->lookup(fd.get());
    if (!uid) return turn_away("refused a connection: " + uid.error().message);
    if (*uid != *options_.allowed_uid)
      return turn_away(
          fmt::format("refused a connection of user {}: only user {} may use this store", *uid, *options_.allowed_uid));
  }
  let_in(std::move(fd));
}

void StoreClients::adopt(UniqueFd fd) {
  ++accepted_;
  if (clients_.size() < options_.limits.connections) {
    let_in(std::move(fd));
  } else {
    turn_away("refused a connection: there are too many");
  }
  callbacks_.publish();
}

void StoreClients::let_in(UniqueFd fd) {
  if (const std::string_view why = backend_.closed_because(); !why.empty())
    return turn_away(fmt::format("refused a connection: {}", why));
  const int on = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  if (silent_.size() >= options_.limits.silent_connections)
    close_longest_silent("too many connections without a greeting");
  auto watched = watch_on(io_, std::move(fd));
  if (!watched) return turn_away("refused a connection: " + watched.error().message);
  const auto client = std::make_shared<Client>(*this, std::move(*watched), ++last_id_, options_.limits.wire);
  clients_.emplace(client->id, client);
  client->silent = silent_.add(client->id);
  if (acceptor_ && clients_.size() >= options_.limits.connections) acceptor_->pause();
  client->read_now();  // its greeting has usually come with it
}

void StoreClients::turn_away(std::string_view reason) {
  ++refused_;
  callbacks_.report(reason);
}

// Close a client that has not even greeted. False: there is none.
bool StoreClients::make_room(const Error& why) {
  if (close_longest_silent("room needed for another connection")) return true;
  callbacks_.report(why.message);
  return false;
}

bool StoreClients::close_longest_silent(std::string_view reason) {
  if (silent_.empty()) return false;
  close(silent_.longest(), reason);
  return true;
}

// ---- what clients say -----------------------------------------------------------------------------------------------

std::size_t StoreClients::room(const Client& client) {
  if (client.full()) return 0;
  if (backend_.ready()) return kClientLimits.read_bytes;
  if (client.greeting) return 1;  // the greeting and not a byte of what follows
  stalled_.push_back(client.id);
  return 0;
}

void StoreClients::received(Client& client, std::string_view input) {
  const bool first = !std::exchange(client.heard, true);
  if (first && options_.adopt && input.front() == options_.adopt_byte) return give_away(client, input);
  if (client.greeting && !greet(client, input)) return;
  while (!input.empty()) {
    const std::size_t most = options_.limits.buffer_bytes;
    actions_.allow(outlets_.held_bytes(), most - std::min(most, buffered_bytes_));
    backend_.receive(client.id, input, actions_);
    outlets_.carry_out(actions_);
    if (!client.open()) return;
  }
  account(client);
}

// True: the greeting is complete, and taken from the front of the input.
bool StoreClients::greet(Client& client, std::string_view& input) {
  const StoreDecoder::Status status = client.greeting->next(input);
  if (status == StoreDecoder::Status::bad) close(client, std::string(client.greeting->error()));
  if (status != StoreDecoder::Status::request) return false;
  client.greeting.reset();
  silent_.remove(*std::exchange(client.silent, std::nullopt));
  if (options_.early && !begun_) {
    close(client, "no round has begun");
    options_.early();
    return false;
  }
  backend_.connect(client.id);
  return true;
}

void StoreClients::give_away(Client& client, std::string_view received) {
  UniqueFd socket = client.release();
  close(client, "");
  options_.adopt(std::move(socket), std::string(received));
}

// ---- what they are told ---------------------------------------------------------------------------------------------

void StoreClients::send(ConnectionId connection, std::string_view bytes) {
  const auto found = clients_.find(connection);
  if (found == clients_.end()) return;
  found->second->write(bytes);
  wrote(*found->second);
}

void StoreClients::hand_over(ConnectionId connection, std::string&& bytes) {
  const auto found = clients_.find(connection);
  if (found == clients_.end()) return;
  found->second->hand_over(std::move(bytes));
  wrote(*found->second);
}

void StoreClients::wrote(Client& client) {
  if (client.queue().empty()) return;
  if (client.queue().size() > options_.limits.output_bytes)
    return close(client,
                 fmt::format("client has left more than {} bytes of replies unread", options_.limits.output_bytes));
  account(client);
}

void StoreClients::close(ConnectionId connection, std::string_view reason) {
  const auto found = clients_.find(connection);
  if (found != clients_.end()) close(*found->second, reason);
}

// Bring the client's share of the buffers up to date. One that takes them over the limit is closed.
void StoreClients::account(Client& client) {
  const std::size_t now = client.queue().memory() + backend_.held_bytes(client.id);
  buffered_bytes_ += now - client.accounted;
  client.accounted = now;
  if (buffered_bytes_ <= options_.limits.buffer_bytes) return;
  close(client,
        fmt::format("all connections together hold more than {} bytes of unfinished requests and unread replies",
                    options_.limits.buffer_bytes));
}

// An empty reason: the client has left, which is no fault.
void StoreClients::close(Client& client, std::string_view reason) {
  const ClientPtr alive = clients_.at(client.id);
  if (!reason.empty()) turn_away(fmt::format("closed connection {}: {}", client.id, reason));
  backend_.disconnect(client.id);
  buffered_bytes_ -= std::exchange(client.accounted, 0);
  if (client.silent) silent_.remove(*std::exchange(client.silent, std::nullopt));
  client.LinkStream::close();
  clients_.erase(client.id);
  if (options_.forgets && clients_.empty()) asio::post(io_, [this] { forget_if_alone(); });
  if (acceptor_) acceptor_->resume();
}

// Not while a request is carried out.
void StoreClients::forget_if_alone() {
  if (!clients_.empty()) return;
  backend_.renew();
  callbacks_.publish();
}

void StoreClients::describe(StoreStats& stats) const {
  stats.connections_accepted = accepted_;
  stats.connections_refused = refused_;
  stats.connections_open = clients_.size();
}

}  // namespace dtrain
