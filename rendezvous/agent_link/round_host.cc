#include "rendezvous/agent_link/round_host.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>
#include <vector>

#include "rendezvous/net/connect.h"
#include "rendezvous/net/deadline.h"
#include "rendezvous/net/peer_uid.h"

namespace dtrain {

namespace asio = boost::asio;

namespace {
constexpr auto kGreeting = std::chrono::seconds(3);
constexpr std::size_t kMostConnections = 65536;
}  // namespace

RoundHost::RoundHost(asio::io_context& io, RoundSettings settings, Options options)
    : io_(io),
      core_(std::move(settings)),
      options_(std::move(options)),
      timer_(io),
      silence_timer_(io),
      desk_([this](MemberId id, const msg::Whose& whose) { ask_whose(id, whose); }) {}

RoundHost::~RoundHost() {
  for (auto& [id, peer] : channels_) peer.channel->close();
}

void RoundHost::adopt(LinkSocket socket, const std::string& received_before) {
  const auto ends = options_.vouches ? ends_of_peer(socket.fd.get()) : Result<TcpEnds>(TcpEnds{});
  std::string address = options_.pulse ? peer_address(socket.fd.get()) : "";
  Peer* peer = add(std::move(socket), received_before);
  if (peer == nullptr) return;
  if (options_.pulse) peer->silence.emplace(*options_.pulse, SteadyClock::now());
  peer->address = std::move(address);
  if (ends && !ends->own.empty()) desk_.came(last_id_, ends->own);
}

void RoundHost::adopt_own(UniqueFd socket) { add({std::move(socket)}, {}); }

// Null: there are too many.
RoundHost::Peer* RoundHost::add(LinkSocket socket, const std::string& received_before) {
  if (channels_.size() >= kMostConnections) return nullptr;
  const MemberId id = ++last_id_;
  Peer& peer = channels_[id];
  peer.channel = std::make_shared<RoundChannel>(io_, std::move(socket));
  peer.greeting = std::make_unique<asio::steady_timer>(io_);
  await_greeting(id);
  peer.channel->start(
      {[this, id](const RoundMessage& m) { received(id, m); }, [this, id](const std::string&) { closed(id); }},
      received_before);
  return &peer;
}

void RoundHost::await_greeting(MemberId id) {
  asio::steady_timer& timer = *channels_.at(id).greeting;
  timer.expires_after(kGreeting);
  timer.async_wait([this, id, alive = std::weak_ptr(lives_)](const boost::system::error_code& ec) {
    // A timer that has gone off cannot be called back: the node may have joined since.
    if (ec || alive.expired()) return;
    if (late(id)) read_waiting(id);
    if (late(id)) drop(id);
  });
}

bool RoundHost::late(MemberId id) const {
  const auto it = channels_.find(id);
  return it != channels_.end() && it->second.greeting && it->second.greeting->expiry() <= SteadyClock::now();
}

bool RoundHost::may_say(const Peer& peer, const RoundMessage& message) {
  if (message.index() >= RoundMessage(msg::Refused{}).index()) return false;  // no agent says that
  if (!peer.greeting) return !std::holds_alternative<msg::Here>(message);
  if (!peer.join) return std::holds_alternative<msg::Join>(message);
  return std::holds_alternative<msg::Here>(message) || std::holds_alternative<msg::Owned>(message);
}

// A host that was kept from running finds what was said before it was given up: only who answers is there.
void RoundHost::welcome(MemberId id, const msg::Join& join) {
  Peer& peer = channels_.at(id);
  peer.join = join;
  peer.join->node.seen_at = peer.address;
  peer.voter = voter_id(join.node.agent_id);
  await_greeting(id);
  peer.channel->send(msg::Welcome{options_.standing});
}

void RoundHost::received(MemberId id, const RoundMessage& message) {
  Peer& peer = channels_.at(id);
  if (const auto* seek = std::get_if<msg::Seek>(&message); seek != nullptr && peer.greeting && options_.succession) {
    // It will join, or go when the time for greetings is over.
    const auto channel = peer.channel;
    const auto at = options_.succession->seeker(*seek);
    if (at && channel->open()) channel->send(*at);
    return;
  }
  if (!may_say(peer, message)) return drop(id);
  const bool here = std::holds_alternative<msg::Here>(message);
  if (here) peer.greeting.reset();
  if (peer.silence) {
    peer.silence->heard(SteadyClock::now());
    listen_for_silence();
  }
  if (std::holds_alternative<msg::Ask>(message)) return peer.channel->send(msg::Facts{facts()});
  if (const auto* owned = std::get_if<msg::Owned>(&message)) return desk_.answered(id, *owned);
  if (const auto* ping = std::get_if<msg::Ping>(&message)) return pinged(id, *ping);
  if (std::holds_alternative<msg::Leaving>(message) && options_.succession) options_.succession->left(peer.voter);
  if (const auto* join = std::get_if<msg::Join>(&message); join != nullptr && peer.greeting) return welcome(id, *join);
  const RoundMessage said = here ? *std::exchange(peer.join, std::nullopt) : message;
  perform(core_.step(round_event::Said{id, said}, SteadyClock::now()));
}

void RoundHost::pinged(MemberId id, const msg::Ping& ping) {
  Peer& peer = channels_.at(id);
  if (!std::exchange(peer.pinged, ping.sent))
    asio::post(io_, [this, id, alive = std::weak_ptr(lives_)] {
      if (!alive.expired()) answer_ping(id);
    });
  if (options_.succession && ping.stamp != 0)
    options_.succession->echoed(peer.voter, MonoTime(MonoTime::duration(ping.stamp)), ping.round);
}

// The newest: many may have come at once, after a stall.
void RoundHost::answer_ping(MemberId id) {
  const auto it = channels_.find(id);
  if (it == channels_.end()) return;
  const auto sent = std::exchange(it->second.pinged, std::nullopt);
  const bool sure = !options_.sure || options_.sure();
  if (!sent || (!sure && !options_.succession)) return;
  msg::Pong pong{sure ? *sent : 0};
  if (options_.succession) {
    pong.stamp = SteadyClock::now().time_since_epoch().count();
    pong.settled = options_.succession->settled_round();
  }
  it->second.channel->send(pong);
}

void RoundHost::ask_whose(MemberId id, const msg::Whose& whose) {
  const auto it = channels_.find(id);
  if (it != channels_.end()) it->second.channel->send(whose);
}

// One timer for all, set anew only when it has gone off.
void RoundHost::listen_for_silence() {
  if (listens_) return;
  std::optional<MonoTime> first;
  for (const auto& [id, peer] : channels_) {
    if (peer.silence && !peer.greeting) first = std::min(first.value_or(MonoTime::max()), peer.silence->deadline());
  }
  if (!first) return;
  listens_ = true;
  silence_timer_.expires_at(*first);
  silence_timer_.async_wait([this, alive = std::weak_ptr(lives_)](const boost::system::error_code& ec) {
    if (alive.expired()) return;
    listens_ = false;
    if (!ec) look_for_silence();
  });
}

void RoundHost::look_for_silence() {
  std::vector<MemberId> lost;
  for (const auto& [id, peer] : channels_) {
    if (peer.silence && !peer.greeting && peer.silence->lost(SteadyClock::now())) lost.push_back(id);
  }
  for (const MemberId id : lost) {
    read_waiting(id);
    const auto it = channels_.find(id);
    if (it != channels_.end() && it->second.silence->lost(SteadyClock::now())) drop(id);
  }
  listen_for_silence();
}

void RoundHost::read_waiting(MemberId id) {
  const auto it = channels_.find(id);
  if (it == channels_.end()) return;
  const auto channel = it->second.channel;
  channel->read_waiting();
}

void RoundHost::drop(MemberId id) {
  const auto it = channels_.find(id);
  if (it == channels_.end()) return;
  it->second.channel->close();
  closed(id);
}

void RoundHost::closed(MemberId id) {
  const auto it = channels_.find(id);
  const Peer& peer = it->second;
  MonoTime fenced_at = peer.silence ? peer.silence->fenced_at() : MonoTime{};
  // An agent that closes its link kills its workers after kill_grace, and the guard of one that has died does sooner.
  if (peer.channel->peer_ended() && options_.pulse)
    fenced_at = std::min(fenced_at, SteadyClock::now() + options_.pulse->kill_grace() * 3 / 2);
  channels_.erase(it);
  desk_.left(id);
  perform(core_.step(round_event::Gone{id, fenced_at}, SteadyClock::now()));
  if (channels_.empty() && on_empty) on_empty();
}

void RoundHost::perform(const std::vector<RoundAction>& actions) {
  for (const auto& action : actions) {
    if (options_.before_round && !holds_ && std::holds_alternative<round_action::FreshStore>(action)) {
      holds_ = true;
      options_.before_round(core_.round(), core_.restarts(), int(core_.members()), core_.electorate().voters,
                            [this, alive = std::weak_ptr(lives_)] {
                              if (!alive.expired()) round_allowed();
                            });
    }
    if (holds_)
      held_.push_back(action);
    else
      perform(action);
  }
  arm();
  if (core_.phase() != RoundPhase::ended || holds_ || std::exchange(ended_, true)) return;
  if (on_ended) on_ended();
}

// Order is kept. A second round among them cannot be: it takes answers of members to the first.
void RoundHost::round_allowed() {
  holds_ = false;
  for (const auto& action : std::exchange(held_, {})) perform(action);
}

void RoundHost::perform(const RoundAction& action) {
  if (std::holds_alternative<round_action::FreshStore>(action)) return options_.fresh_store(core_.round());
  if (const auto* tell = std::get_if<round_action::Tell>(&action))
    return options_.say ? options_.say(tell->line) : void();
  const auto& send = std::get<round_action::Send>(action);
  const auto it = channels_.find(send.member);
  if (it == channels_.end()) return;
  if (const auto* open = std::get_if<msg::Open>(&send.message); open != nullptr && options_.succession) {
    msg::Open complete = *open;
    complete.electorate.earlier = options_.succession->earlier();
    return it->second.channel->send(complete);
  }
  it->second.channel->send(send.message);
}

void RoundHost::arm() {
  call_at(timer_, core_.deadline(), [this, alive = std::weak_ptr(lives_)] {
    if (!alive.expired()) perform(core_.step(round_event::Tick{}, SteadyClock::now()));
  });
}

void RoundHost::turned_away(const std::string& line, bool told) {
  const std::string text = core_.turned_away(line);
  if (!text.empty() && !told && options_.say) options_.say(text);
}

void RoundHost::close(const Verdict& verdict) { perform(core_.close(verdict)); }

}  // namespace dtrain
