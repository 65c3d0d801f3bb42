#include "rendezvous/agent_link/seek_link.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <utility>

namespace dtrain {

namespace asio = boost::asio;

namespace {
constexpr auto kFirst = std::chrono::milliseconds(100);
constexpr auto kLongest = std::chrono::milliseconds(1000);
constexpr auto kGreetingTime = std::chrono::seconds(3);
constexpr std::size_t kMostSeekers = 65536;
}  // namespace

// ---- SeekLink -------------------------------------------------------------------------------------------------------

SeekLink::SeekLink(asio::io_context& io, Options options)
    : io_(io), options_(std::move(options)), dial_(io), again_(io), after_(kFirst) {
  connect();
}

SeekLink::~SeekLink() {
  dial_.cancel();
  again_.cancel();
  if (channel_) channel_->close();
}

void SeekLink::connect() {
  dial_.start({options_.address}, options_.port, [this](Result<Dial::Connection> made) {
    refused_ = !made && made.error().errno_value == ECONNREFUSED;
    if (made) return connected(std::move(*made));
    lost();
  });
}

void SeekLink::connected(Dial::Connection connection) {
  LinkSocket socket{std::move(connection.socket)};
  if (options_.credential) {
    auto session = TlsSession::client(*options_.credential, {LinkRole::agent, 0, options_.job});
    if (!session) return lost();
    socket.tls.emplace(std::move(*session));
  }
  channel_ = std::make_shared<RoundChannel>(io_, std::move(socket));
  channel_->start({[this](const RoundMessage& m) {
                     after_ = kFirst;
                     options_.message(m);
                   },
                   [this](const std::string&) { lost(); }});
  channel_->send(options_.seek());
}

void SeekLink::lost() {
  if (channel_) channel_->close();
  channel_.reset();
  again_.expires_after(after_);
  after_ = std::min(2 * after_, kLongest);
  // A timer that has gone off cannot be called back.
  again_.async_wait([this, alive = std::weak_ptr(lives_)](const boost::system::error_code& ec) {
    if (!ec && !alive.expired()) connect();
  });
}

void SeekLink::seek_again() { send(options_.seek()); }

void SeekLink::send(const RoundMessage& message) {
  if (channel_) channel_->send(message);
}

// ---- SeekDesk -------------------------------------------------------------------------------------------------------

SeekDesk::~SeekDesk() {
  for (auto& [id, peer] : peers_) peer.channel->close();
}

void SeekDesk::adopt(LinkSocket socket, const std::string& received_before) {
  if (peers_.size() >= kMostSeekers) return;
  const std::uint64_t id = ++last_id_;
  Peer& peer = peers_[id];
  peer.channel = std::make_shared<RoundChannel>(io_, std::move(socket));
  peer.greeting = std::make_unique<asio::steady_timer>(io_, kGreetingTime);
  peer.greeting->async_wait([this, id, alive = std::weak_ptr(lives_)](const boost::system::error_code& ec) {
    if (!ec && !alive.expired() && peers_.contains(id) && !peers_.at(id).seek) gone(id);
  });
  peer.channel->start(
      {[this, id](const RoundMessage& m) { received(id, m); }, [this, id](const std::string&) { gone(id); }},
      received_before);
}

void SeekDesk::received(std::uint64_t id, const RoundMessage& message) {
  Peer& peer = peers_.at(id);
  if (const auto* seek = std::get_if<msg::Seek>(&message)) {
    const auto before = std::exchange(peer.seek, *seek);
    peer.greeting.reset();
    if (const auto at = callbacks_.host_at()) peer.channel->send(*at);
    if (before) callbacks_.seeker(*before, false);
    return callbacks_.seeker(*seek, true);
  }
  const auto* vote = std::get_if<msg::Vote>(&message);
  // Whoever wants to join has come too early: there is no host here.
  if (vote == nullptr || !peer.seek) return gone(id);
  callbacks_.vote(peer.seek->voter, *vote);
}

void SeekDesk::gone(std::uint64_t id) {
  const auto it = peers_.find(id);
  const auto seek = it->second.seek;
  it->second.channel->close();
  peers_.erase(it);
  if (seek) callbacks_.seeker(*seek, false);
}

void SeekDesk::send(VoterId to, const RoundMessage& message) {
  for (auto& [id, peer] : peers_)
    if (peer.seek && (to == 0 || peer.seek->voter == to)) peer.channel->send(message);
}

}  // namespace dtrain
