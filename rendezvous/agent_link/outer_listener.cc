#include "rendezvous/agent_link/outer_listener.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include "rendezvous/net/connect.h"
#include "rendezvous/net/peer_uid.h"
#include "rendezvous/net/watch.h"
#include "rendezvous/rounds/round_wire.h"
#include "rendezvous/store/store_wire.h"

namespace dtrain {

namespace asio = boost::asio;

namespace {

constexpr int kAcceptsPerTurn = 16;  // a handshake costs some time, and the agent has other work

}  // namespace

struct OuterListener::Unknown {
  explicit Unknown(asio::posix::stream_descriptor watched)
      : address(peer_address(watched.native_handle())), socket(std::move(watched)) {}
  const std::string address;
  asio::posix::stream_descriptor socket;
  LinkBytes bytes;
  std::string received;  // plaintext
  const std::chrono::steady_clock::time_point came = std::chrono::steady_clock::now();
  bool waits_writable = false;
  bool began = false;   // its first bytes were looked at
  bool asks = false;    // for the secret, by MUNGE; `received` is the request
  bool worker = false;  // of the store, it says; somebody has been asked
  std::list<std::shared_ptr<Unknown>>::iterator place{};
};

std::size_t OuterListener::room_for_unknown() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return kMostUnknown / 4;
  return std::clamp<std::size_t>(limit.rlim_cur / 4, 16, kMostUnknown);
}

OuterListener::OuterListener(asio::io_context& io, UniqueFd listener, Options options)
    : io_(io),
      acceptor_(io, asio::posix::stream_descriptor(io, listener.release()),
                {.most_a_turn = kAcceptsPerTurn,
                 .accepted = [this](UniqueFd fd) { admit(std::move(fd)); },
                 .no_room = [this](const Error&) { return make_room(); }}),
      options_(std::move(options)),
      deadline_(io) {
  acceptor_.resume();
}

OuterListener::~OuterListener() {
  for (const UnknownPtr& peer : unknown_) {
    boost::system::error_code ignored;
    peer->socket.close(ignored);
  }
}

// ---- coming ---------------------------------------------------------------------------------------------------------

// Of those from the address that most have come from, the one that has been there longest: a crowd from one host makes
// room for itself, and not at the cost of a node that is slow to prove who it is.
OuterListener::UnknownPtr OuterListener::who_makes_room() const {
  std::size_t most = 0;
  for (const auto& [address, count] : came_from_) most = std::max(most, count);
  return *std::find_if(unknown_.begin(), unknown_.end(),
                       [&](const UnknownPtr& peer) { return came_from_.at(peer->address) == most; });
}

// False: nobody is there who could go.
bool OuterListener::make_room() {
  if (unknown_.empty()) {
    report("cannot accept connections of other nodes: too many open files (see `ulimit -n`)");
    return false;
  }
  drop(who_makes_room(), "room needed for another connection");
  return true;
}

// Returns it, because `peer` may be the list's own.
OuterListener::UnknownPtr OuterListener::forget(const UnknownPtr& peer) {
  UnknownPtr gone = *peer->place;
  const auto counted = came_from_.find(gone->address);
  if (--counted->second == 0) came_from_.erase(counted);
  unknown_.erase(gone->place);
  acceptor_.resume();
  return gone;
}

void OuterListener::admit(UniqueFd fd) {
  if (unknown_.size() >= options_.most_unknown)
    drop(who_makes_room(), "too many connections that do not say who they are");
  tune_link(fd.get());
  auto watched = watch_on(io_, std::move(fd));
  if (!watched) return;  // closed: whoever it was comes again
  const auto peer = std::make_shared<Unknown>(std::move(*watched));
  peer->place = unknown_.insert(unknown_.end(), peer);
  ++came_from_[peer->address];
  arm_deadline();
  if (unknown_.size() >= options_.most_unknown) {
    const auto makes_room_at = who_makes_room()->came + options_.least_unknown;
    if (peer->came < makes_room_at) acceptor_.pause_until(makes_room_at);
  }
  if (options_.credential) {
    auto session = options_.any_job ? TlsSession::server_of_any_job(*options_.credential)
                                    : TlsSession::server(*options_.credential, options_.job);
    if (!session) return drop(peer, session.error().message);
    peer->bytes = LinkBytes(std::move(*session));
  }
  wait_readable(peer);
}

// ---- proving who it is ----------------------------------------------------------------------------------------------

void OuterListener::wait_readable(const UnknownPtr& peer) {
  peer->socket.async_wait(asio::posix::stream_descriptor::wait_read, [this, peer](const boost::system::error_code& ec) {
    if (!ec && peer->socket.is_open()) readable(peer);
  });
}

void OuterListener::wait_writable(const UnknownPtr& peer) {
  if (std::exchange(peer->waits_writable, true)) return;
  peer->socket.async_wait(asio::posix::stream_descriptor::wait_write,
                          [this, peer](const boost::system::error_code& ec) {
                            peer->waits_writable = false;
                            if (ec || !peer->socket.is_open()) return;
                            std::string_view nothing;
                            peer->bytes.send(peer->socket.native_handle(), nothing);
                            if (peer->bytes.unsent()) wait_writable(peer);
                          });
}

// One that is not TLS's may be that of a request, of a worker, or of a stranger that is known by it. Why it is turned
// away; empty: it is not.
std::string OuterListener::judge_first_bytes(Unknown& peer) const {
  if (peer.began) return "";
  std::array<char, kStoreGreeting.size()> first{};
  const ssize_t size = ::recv(peer.socket.native_handle(), first.data(), first.size(), MSG_PEEK | MSG_DONTWAIT);
  if (size < 1) return "";
  peer.began = true;
  const std::string_view bytes(first.data(), std::size_t(size));
  peer.asks = options_.munge && asked_for_munge(bytes.substr(0, 1)) == MungeAsked::more;
  peer.worker = options_.vouch && bytes.front() == kStoreGreeting.front();
  if (!peer.worker && bytes == kStoreGreeting) return kTorchrunKnocks;
  for (const std::string_view method : {"GET ", "POST ", "PUT ", "HEAD "})
    if (bytes.starts_with(method.substr(0, bytes.size())) && bytes.size() >= 4) return "it speaks HTTP";
  return "";
}

void OuterListener::ask_for_voucher(const UnknownPtr& peer) {
  const auto ends = ends_of_peer(peer->socket.native_handle());
  if (!ends) return drop(peer, "");
  // The answer may come from within, when `peer` must not go yet.
  options_.vouch(*ends, [this, weak = std::weak_ptr(peer)](bool yes) {
    asio::post(io_, [this, weak, yes] {
      if (const UnknownPtr still = weak.lock(); still && still->socket.is_open()) vouched(still, yes);
    });
  });
}

void OuterListener::drop_workers() {
  std::vector<UnknownPtr> workers;
  for (const UnknownPtr& peer : unknown_)
    if (peer->worker) workers.push_back(peer);
  for (const UnknownPtr& peer : workers) drop(peer, "");
}

void OuterListener::vouched(const UnknownPtr& peer, bool yes) {
  if (!yes) return drop(peer, std::string("no agent of this job vouches for it; ") + kTorchrunKnocks);
  UniqueFd fd(peer->socket.release());
  forget(peer);
  options_.worker(std::move(fd));
}

void OuterListener::read_request(const UnknownPtr& peer) {
  std::array<char, kMungeRequest.size() + 1> buffer;
  const std::size_t room = buffer.size() - peer->received.size();
  const ssize_t got = ::recv(peer->socket.native_handle(), buffer.data(), room, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return wait_readable(peer);
  if (got <= 0) return drop(peer, "");
  peer->received.append(buffer.data(), std::size_t(got));
  const MungeAsked asked = asked_for_munge(peer->received);
  if (asked == MungeAsked::more) return wait_readable(peer);
  if (asked == MungeAsked::no) return drop(peer, "it asks for something that this version of dtrain does not know");
  const std::weak_ptr<Unknown> weak = peer;
  const bool waits = options_.munge->ask(weak, [this, weak](const Result<std::string>& credential) {
    if (const UnknownPtr still = weak.lock(); still && still->socket.is_open()) answer_request(still, credential);
  });
  if (!waits) drop(peer, "too many ask for the job's secret by MUNGE");
}

void OuterListener::answer_request(const UnknownPtr& peer, const Result<std::string>& credential) {
  if (!credential) return drop(peer, credential.error().message);
  // A connection that was never written to takes this at once.
  const ssize_t sent =
      ::send(peer->socket.native_handle(), credential->data(), credential->size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  drop(peer, sent == ssize_t(credential->size()) ? "" : "it does not take the job's secret");
}

void OuterListener::readable(const UnknownPtr& peer) {
  if (const std::string why = judge_first_bytes(*peer); !why.empty()) return drop(peer, why);
  if (peer->asks) return read_request(peer);
  if (peer->worker) return ask_for_voucher(peer);
  std::array<char, 4096> buffer;
  std::string_view got;
  const auto status = peer->bytes.receive(peer->socket.native_handle(), buffer, got);
  peer->received.append(got);
  if (status == LinkBytes::Status::failed) return drop(peer, peer->bytes.error());
  if (status == LinkBytes::Status::ended) return drop(peer, "");
  if (peer->bytes.unsent()) wait_writable(peer);
  if (!peer->bytes.encrypted() && got.starts_with('\x16'))
    return drop(peer, "it speaks TLS: its node was started without --insecure, and this one with it");
  bool known = peer->bytes.encrypted() ? peer->bytes.established() : !peer->received.empty();
  if (known && peer->bytes.encrypted() && options_.enough) known = options_.enough(peer->bytes.link(), peer->received);
  if (known && !peer->bytes.unsent()) return hand_over(peer);
  wait_readable(peer);
}

void OuterListener::hand_over(const UnknownPtr& peer) {
  const bool for_rounds = peer->received.starts_with(kRoundGreeting.front());
  const LinkRole role = peer->bytes.encrypted() ? peer->bytes.link().role
                        : for_rounds            ? LinkRole::agent
                                                : LinkRole::store;
  const Taker& taker = role == LinkRole::agent   ? options_.agent
                       : role == LinkRole::store ? options_.store
                                                 : options_.engine;
  if (!taker) return drop(peer, fmt::format("its {} link does not lead here", word_of(role)));
  LinkSocket socket{UniqueFd(peer->socket.release()), peer->bytes.release()};
  forget(peer);
  taker(std::move(socket), std::move(peer->received));
}

// An empty reason: it has left.
void OuterListener::drop(const UnknownPtr& peer, const std::string& why) {
  const UnknownPtr gone = forget(peer);
  boost::system::error_code ignored;
  gone->socket.close(ignored);
  if (!why.empty()) report(fmt::format("turned away a connection from {}: {}", gone->address, why));
}

void OuterListener::arm_deadline() {
  if (deadline_armed_ || unknown_.empty()) return;
  deadline_armed_ = true;
  deadline_.expires_at(unknown_.front()->came + options_.longest_unknown);
  deadline_.async_wait([this, alive = std::weak_ptr(lives_)](const boost::system::error_code& ec) {
    if (alive.expired()) return;
    deadline_armed_ = false;
    if (ec) return;
    const auto now = std::chrono::steady_clock::now();
    while (!unknown_.empty() && unknown_.front()->came + options_.longest_unknown <= now)
      drop(unknown_.front(), unknown_.front()->asks     ? "munged has made no credential for it in time"
                             : unknown_.front()->worker ? "no agent of this job has vouched for it in time"
                                                        : "it has not said who it is in time");
    arm_deadline();
  });
}

void OuterListener::report(const std::string& line) {
  if (!options_.log) return;
  if (const auto text = reports_.admit(line, std::chrono::steady_clock::now())) options_.log(*text);
}

}  // namespace dtrain
