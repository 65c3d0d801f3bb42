#include "rendezvous/round_host.h"

#include <utility>

namespace dtrain {

namespace asio = boost::asio;

namespace {
constexpr auto kGreeting = std::chrono::seconds(3);
constexpr std::size_t kMostConnections = 4096;
}  // namespace

RoundHost::RoundHost(asio::io_context& io, RoundSettings settings, std::function<void()> fresh_store)
    : io_(io), core_(std::move(settings)), fresh_store_(std::move(fresh_store)), timer_(io) {}

RoundHost::~RoundHost() {
  for (auto& [id, peer] : channels_) peer.channel->close();
}

void RoundHost::adopt(UniqueFd socket, const std::string& received_before) {
  if (channels_.size() >= kMostConnections) return;
  const MemberId id = ++last_id_;
  Peer& peer = channels_[id];
  peer.channel = std::make_shared<RoundChannel>(io_, std::move(socket));
  peer.greeting = std::make_unique<asio::steady_timer>(io_, kGreeting);
  peer.greeting->async_wait([this, id](const boost::system::error_code& ec) {
    // A timer that has gone off cannot be called back: the node may have joined since.
    const auto it = channels_.find(id);
    if (!ec && it != channels_.end() && it->second.greeting) drop(id);
  });
  peer.channel->start(
      {[this, id](const RoundMessage& m) { received(id, m); }, [this, id](const std::string&) { closed(id); }},
      received_before);
}

void RoundHost::received(MemberId id, const RoundMessage& message) {
  const bool from_agent = message.index() < RoundMessage(msg::Refused{}).index();
  if (!from_agent) return drop(id);
  channels_.at(id).greeting.reset();
  perform(core_.step(round_event::Said{id, message}, clock_.now()));
}

void RoundHost::drop(MemberId id) {
  const auto it = channels_.find(id);
  if (it == channels_.end()) return;
  it->second.channel->close();
  closed(id);
}

void RoundHost::closed(MemberId id) {
  channels_.erase(id);
  perform(core_.step(round_event::Gone{id}, clock_.now()));
  if (channels_.empty() && on_empty) on_empty();
}

void RoundHost::perform(const std::vector<RoundAction>& actions) {
  for (const auto& action : actions) {
    if (std::holds_alternative<round_action::FreshStore>(action)) {
      fresh_store_();
      continue;
    }
    const auto& send = std::get<round_action::Send>(action);
    const auto it = channels_.find(send.member);
    if (it != channels_.end()) it->second.channel->send(send.message);
  }
  arm();
}

void RoundHost::arm() {
  const auto at = core_.deadline();
  if (!at) {
    timer_.cancel();
    return;
  }
  timer_.expires_at(*at);
  timer_.async_wait([this](const boost::system::error_code& ec) {
    if (!ec) perform(core_.step(round_event::Tick{}, clock_.now()));
  });
}

void RoundHost::close(const Verdict& verdict) { perform(core_.close(verdict)); }

}  // namespace dtrain
