#include "rendezvous/agent_link/round_link.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <utility>

#include "rendezvous/net/connect.h"
#include "rendezvous/net/peer_uid.h"

namespace dtrain {

namespace asio = boost::asio;

namespace {
constexpr auto kHello = std::chrono::seconds(3);

}  // namespace

void RoundLink::connect(const Host& host, const NodeInfo& node) {
  close();
  same_user_ = !host.across_hosts;
  pulse_settings_ = host.across_hosts ? std::optional(host.pulse) : std::nullopt;
  dial_.start(host.addresses, host.port,
              [this, credential = host.credential, complete = host.complete, node](Result<Dial::Connection> made) {
                if (!made) return callbacks_.unreachable(made.error());
                address_ = made->address;
                LinkSocket socket{std::move(made->socket)};
                NodeInfo own = node;
                if (complete) complete(own_address(socket.fd.get()), own);
                if (credential) {
                  auto session = TlsSession::client(*credential, {LinkRole::agent, 0, node.job});
                  if (!session) return callbacks_.lost(false, session.error().message, TlsFault::local);
                  socket.tls.emplace(std::move(*session));
                }
                connected(std::move(socket), own);
              });
}

void RoundLink::join_own(UniqueFd socket, const NodeInfo& node) {
  close();
  same_user_ = false;  // it is this process
  pulse_settings_.reset();
  connected({std::move(socket)}, node);
}

void RoundLink::connected(LinkSocket socket, const NodeInfo& node) {
  channel_ = std::make_shared<RoundChannel>(io_, std::move(socket));
  channel_->start({[this](const RoundMessage& m) { received(m); }, [this](const std::string& why) { lost(why); }});
  stamped_ = {};
  stamp_ = 0;
  round_ = settled_ = -1;
  channel_->send(msg::Join{node});
  hello_.expires_after(kHello);
  // A timer that has gone off cannot be called back: it may be that of an attempt before this one.
  hello_.async_wait([this, attempt = channel_](const boost::system::error_code& ec) {
    if (!ec && !joined_ && channel_ == attempt) attempt->read_waiting();
    if (!ec && !joined_ && channel_ == attempt) lost("it does not answer");
  });
}

// The host has accepted us by its own check; we tell it nothing more before we know whose it is.
Result<void> RoundLink::check_owner() {
  if (!same_user_) return {};
  auto peer = PeerUid::open();
  if (!peer) return peer.error();
  const auto uid = peer->lookup(channel_->fd());
  // It answered and left: nobody to believe, and nobody to blame.
  if (!uid && (uid.error().errno_value == ENOENT || uid.error().errno_value == ENOTCONN))
    return Error{ErrorKind::system, "", ENOTCONN};
  if (!uid) return uid.error();
  if (*uid != ::geteuid()) return Error{ErrorKind::system, fmt::format("it belongs to user {}", *uid)};
  return {};
}

void RoundLink::received(const RoundMessage& message) {
  if (!joined_) {
    if (const auto ours = check_owner(); !ours) return lost(ours.error().message);
  }
  if (const auto* whose = std::get_if<msg::Whose>(&message)) return vouch(*whose);
  if (!joined_) {
    joined_ = true;
    hello_.cancel();
    channel_->send(msg::Here{});
    if (pulse_settings_) {
      pulse_.emplace(*pulse_settings_, SteadyClock::now());  // nothing hangs on the time before it says Here
      beat();
    }
  }
  const auto* pong = std::get_if<msg::Pong>(&message);
  if (const auto* open = std::get_if<msg::Open>(&message)) opened(*open);
  if (!channel_) return;
  if (pong == nullptr) return callbacks_.message(message);
  if (pulse_) pulse_->answered(MonoTime(MonoTime::duration(pong->sent)));
  if (pong->stamp == 0) return;
  stamp_ = std::max(stamp_, pong->stamp);
  stamped_ = SteadyClock::now();
  if (pong->settled == std::exchange(settled_, pong->settled)) return;
  if (pulse_ && settled_ == round_) pulse_->calm();
  if (callbacks_.settled) callbacks_.settled(settled_);
}

// Until a round is settled, the loss of its host may end the job: two answers and what they bring back settle it.
void RoundLink::opened(const msg::Open& open) {
  round_ = open.place.round;
  if (!pulse_ || open.electorate.voters.empty()) return;
  pulse_->hurry(SteadyClock::now() + pulse_settings_->hurry(), pulse_settings_->hurried_ping_every(open.place.nodes));
  beat();
}

// Who cannot tell does not vouch.
void RoundLink::vouch(const msg::Whose& whose) {
  if (!peer_uid_) {
    if (auto opened = PeerUid::open()) peer_uid_ = std::move(*opened);
  }
  const auto uid = peer_uid_ ? peer_uid_->lookup(whose.ends) : Result<uid_t>(Error{});
  channel_->send(msg::Owned{whose.question, uid && *uid == ::geteuid()});
}

void RoundLink::beat() {
  const MonoTime now = SteadyClock::now();
  const auto due = pulse_->step(now);
  if (due == LinkPulse::Due::dead)
    return lost(fmt::format("no word from it for {:g} s", in_seconds(pulse_settings_->stop_after())));
  if (due == LinkPulse::Due::ping) channel_->send(msg::Ping{now.time_since_epoch().count(), stamp_, round_});
  pulse_timer_.expires_at(pulse_->deadline(now));
  pulse_timer_.async_wait([this, alive = channel_](const boost::system::error_code& ec) {
    if (!ec && channel_ == alive) alive->read_waiting();
    if (!ec && channel_ == alive) beat();
  });
}

void RoundLink::lost(const std::string& reason) {
  const bool was_joined = joined_;
  const TlsFault fault = channel_->fault();
  close();
  callbacks_.lost(was_joined, reason, fault);
}

void RoundLink::send(const RoundMessage& message) {
  if (channel_) channel_->send(message);
}

void RoundLink::close() {
  dial_.cancel();
  hello_.cancel();
  pulse_timer_.cancel();
  pulse_.reset();
  joined_ = false;
  if (channel_) channel_->close();
  channel_.reset();
}

}  // namespace dtrain
