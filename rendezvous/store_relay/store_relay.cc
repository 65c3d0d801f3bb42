#include "rendezvous/store_relay/store_relay.h"

#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <utility>

#include "rendezvous/net/connect.h"
#include "rendezvous/net/listen.h"

namespace dtrain {

namespace asio = boost::asio;

namespace {
constexpr auto kPause = std::chrono::milliseconds(100);  // after the first attempt; longer after each
}

StoreRelay::StoreRelay(asio::io_context& io, const StoreRemote& remote) : io_(io), remote_(remote), deadline_(io) {}

void StoreRelay::begin_round(std::uint64_t round) {
  stop();
  round_ = round;
  closed_because_.clear();
  attempts_ = 0;
  attempt();
}

void StoreRelay::attempt() {
  ++attempts_;
  if (const auto made = make_link(); !made) {
    // Not from within: the caller has yet to know that the round has begun.
    asio::post(io_, [this, round = round_, why = made.error().message] {
      if (round == round_ && !link_) lost(why);
    });
    return;
  }
  deadline_.expires_after(remote_.timeout);
  // A timer that has gone off cannot be called back: it may be that of a link before this one.
  deadline_.async_wait([this, link = link_](const boost::system::error_code& ec) {
    if (!ec && link == link_ && !up_) attempt_again("it does not answer");
  });
}

// No worker's bytes have been sent before the link is welcome, so none are lost.
void StoreRelay::attempt_again(const std::string& reason) {
  if (attempts_ >= remote_.attempts) return lost(reason);
  link_->close();
  link_.reset();
  deadline_.expires_after(kPause * attempts_);
  deadline_.async_wait([this, attempts = attempts_, round = round_](const boost::system::error_code& ec) {
    if (!ec && !link_ && attempts == attempts_ && round == round_ && closed_because_.empty()) attempt();
  });
}

Result<void> StoreRelay::make_link() {
  std::optional<TlsSession> tls;
  if (remote_.secure) {
    auto session = remote_.secure(round_);
    if (!session) return session.error();
    tls = std::move(session).value();
  }
  auto socket = remote_.connect ? remote_.connect() : begin_connect(remote_.address, remote_.port);
  if (!socket) return socket.error();
  link_ = std::make_shared<StoreLink>(io_, std::move(*socket), std::move(tls), false);
  link_->start({.frame = [this](StoreLinkFrame& frame) { received(frame); },
                .turn = [this] { callbacks_.turn(); },
                .drained =
                    [this] {
                      if (up_) callbacks_.ready();
                    },
                .closed =
                    [this](const std::string& reason) {
                      if (up_ || link_->fault() != TlsFault::none) return lost(reason);
                      attempt_again(reason.empty() ? "it closes the connection" : reason);
                    }},
               {}, true);
  link_->send(StoreLinkType::hello, round_);
  return {};
}

void StoreRelay::stop() {
  deadline_.cancel();
  if (link_) link_->close();
  link_.reset();
  up_ = false;
  early_.clear();
  closed_because_ = "no round has begun";
}

// ---- from the workers -----------------------------------------------------------------------------------------------

void StoreRelay::connect(ConnectionId connection) {
  if (up_) {
    link_->send(StoreLinkType::open, connection);
  } else {
    early_.push_back(connection);
  }
}

void StoreRelay::receive(ConnectionId connection, std::string_view& input, StoreActions&) {
  forwarded_bytes_ += input.size();
  link_->send(StoreLinkType::data, connection, input);
  input = {};
}

void StoreRelay::disconnect(ConnectionId connection) {
  if (up_) {
    link_->send(StoreLinkType::closed, connection);
  } else {
    std::erase(early_, connection);
  }
}

void StoreRelay::describe(StoreStats& stats) const {
  stats.forwarded_bytes = forwarded_bytes_;
  stats.links = up_ ? 1 : 0;
}

// ---- from the host --------------------------------------------------------------------------------------------------

void StoreRelay::received(StoreLinkFrame& frame) {
  if (!up_) {
    if (frame.type == StoreLinkType::welcome && frame.number == round_) return welcomed();
    if (frame.type == StoreLinkType::refused) return lost(std::string(frame.payload));
  } else if (frame.type == StoreLinkType::data) {
    return callbacks_.reply(frame.number, frame.payload);
  } else if (frame.type == StoreLinkType::closed) {
    return callbacks_.end(frame.number, frame.payload);
  }
  lost(fmt::format("unexpected frame {} on the store link", static_cast<int>(frame.type)));
}

void StoreRelay::welcomed() {
  deadline_.cancel();
  up_ = true;
  for (const ConnectionId connection : std::exchange(early_, {})) link_->send(StoreLinkType::open, connection);
  callbacks_.ready();
}

void StoreRelay::lost(const std::string& reason) {
  stop();
  closed_because_ = fmt::format("the link to the job's store at {} is lost: {}",
                                address_text(remote_.address, remote_.port), reason.empty() ? "it was closed" : reason);
  callbacks_.lost();
}

}  // namespace dtrain
