#include "rendezvous/net/connect.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <cerrno>

#include "rendezvous/base/clock.h"
#include "rendezvous/net/listen.h"

namespace dtrain {

using boost::asio::ip::tcp;

namespace {
// TCP_RTO_MIN_US of Linux 6.15: older headers do not name it, older kernels refuse it.
constexpr int kTcpRtoMinUs = 45;
// Longer than an acknowledgement is put off (40 ms).
constexpr int kShortestTimeoutUs = 50'000;
}  // namespace

Result<UniqueFd> begin_connect(const std::string& address, std::uint16_t port) {
  boost::system::error_code bad;
  const tcp::endpoint endpoint(boost::asio::ip::make_address(address, bad), port);
  if (bad) return Error{ErrorKind::system, fmt::format("'{}' is not a numeric IPv4 or IPv6 address", address), EINVAL};
  auto failed = [&] { return system_error("cannot connect to " + address_text(address, port), errno); };
  UniqueFd fd(::socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return failed();
  tune_link(fd.get());
  if (::connect(fd.get(), endpoint.data(), static_cast<socklen_t>(endpoint.size())) != 0 && errno != EINPROGRESS)
    return failed();
  return fd;
}

void tune_link(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(fd, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &on, sizeof on);
  ::setsockopt(fd, IPPROTO_TCP, kTcpRtoMinUs, &kShortestTimeoutUs, sizeof kShortestTimeoutUs);
}

int connect_error(int fd) {
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return error;
  tcp::endpoint self, peer;
  auto self_size = static_cast<socklen_t>(self.capacity());
  auto peer_size = static_cast<socklen_t>(peer.capacity());
  if (::getsockname(fd, self.data(), &self_size) != 0 || ::getpeername(fd, peer.data(), &peer_size) != 0) return errno;
  self.resize(self_size);
  peer.resize(peer_size);
  return self == peer ? ECONNREFUSED : 0;
}

std::string peer_address(int fd) {
  namespace asio = boost::asio;
  asio::ip::tcp::endpoint peer;
  auto size = static_cast<socklen_t>(peer.capacity());
  if (::getpeername(fd, peer.data(), &size) != 0) return "an unknown address";
  const auto address = peer.address();
  const bool mapped = address.is_v6() && address.to_v6().is_v4_mapped();
  return mapped ? asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).to_string() : address.to_string();
}

std::string own_address(int fd) {
  boost::asio::ip::tcp::endpoint self;
  auto size = static_cast<socklen_t>(self.capacity());
  if (::getsockname(fd, self.data(), &size) != 0) return "";
  self.resize(size);
  return self.address().to_string();
}

bool nobody_listens(const std::vector<NetworkPlace>& places, std::chrono::milliseconds limit) {
  const auto end = SteadyClock::now() + limit;
  std::vector<UniqueFd> tries;
  int refused = 0;
  for (const NetworkPlace& place : places) {
    auto begun = begin_connect(place.address, place.port);
    if (begun)
      tries.push_back(std::move(*begun));
    else if (begun.error().errno_value == ECONNREFUSED)
      ++refused;
  }
  for (const UniqueFd& one : tries) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - SteadyClock::now()).count();
    pollfd entry{one.get(), POLLOUT, 0};
    if (::poll(&entry, 1, static_cast<int>(std::max<decltype(left)>(left, 0))) <= 0) return false;
    const int error = connect_error(one.get());
    if (error == 0) return false;
    if (error == ECONNREFUSED) ++refused;
  }
  return refused > 0;
}

}  // namespace dtrain
