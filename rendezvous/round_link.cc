#include "rendezvous/round_link.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/ip/tcp.hpp>
#include <cerrno>

#include "rendezvous/peer_uid.h"

namespace dtrain {

namespace asio = boost::asio;

namespace {
constexpr auto kHello = std::chrono::seconds(3);
}

Result<void> RoundLink::connect(const std::string& address, std::uint16_t port, const NodeInfo& node) {
  close();
  joined_ = false;
  const asio::ip::tcp::endpoint endpoint(asio::ip::make_address(address), port);
  UniqueFd fd(::socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  // Blocking, but to this host: the kernel answers at once. Only a backlog that is full makes it wait.
  const timeval longest{.tv_sec = 1, .tv_usec = 0};
  if (!fd || ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &longest, sizeof longest) != 0 ||
      ::connect(fd.get(), endpoint.data(), static_cast<socklen_t>(endpoint.size())) != 0)
    return system_error(fmt::format("cannot connect to {} port {}", address, port), errno);
  sockaddr_storage self{};
  socklen_t size = sizeof self;
  // With nobody there, a connection to a port of the range for clients can meet itself.
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&self), &size) == 0 && size == endpoint.size() &&
      std::equal(reinterpret_cast<const char*>(&self), reinterpret_cast<const char*>(&self) + size,
                 reinterpret_cast<const char*>(endpoint.data())))
    return system_error(fmt::format("cannot connect to {} port {}", address, port), ECONNREFUSED);
  const int on = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) | O_NONBLOCK);

  channel_ = std::make_shared<RoundChannel>(io_, std::move(fd));
  channel_->start({[this](const RoundMessage& m) { received(m); }, [this](const std::string& why) { lost(why); }});
  channel_->send(msg::Join{node});
  hello_.expires_after(kHello);
  // A timer that has gone off cannot be called back: it may be that of an attempt before this one.
  hello_.async_wait([this, attempt = channel_](const boost::system::error_code& ec) {
    if (!ec && !joined_ && channel_ == attempt) lost("it does not answer");
  });
  return {};
}

// The host has accepted us by its own check; we tell it nothing more before we know whose it is.
Result<void> RoundLink::check_owner() {
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
    joined_ = true;
    hello_.cancel();
  }
  callbacks_.message(message);
}

void RoundLink::lost(const std::string& reason) {
  const bool was_joined = joined_;
  close();
  callbacks_.lost(was_joined, reason);
}

void RoundLink::send(const RoundMessage& message) {
  if (channel_) channel_->send(message);
}

void RoundLink::close() {
  hello_.cancel();
  if (channel_) channel_->close();
  channel_.reset();
}

}  // namespace dtrain
