#include "rendezvous/net/listen.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <boost/asio/ip/tcp.hpp>
#include <cerrno>
#include <fstream>

#include "rendezvous/base/printable.h"
#include "rendezvous/net/proc_sockets.h"

namespace dtrain {

namespace asio = boost::asio;

namespace {

constexpr int kBacklog = 4096;

Error port_taken(const std::string& where, const std::string& holder, int error) {
  return {ErrorKind::system,
          fmt::format("cannot listen at {}: the port is taken{}; choose another one", where,
                      holder.empty() ? "" : " by " + holder),
          error};
}

}  // namespace

std::string port_holder(std::uint16_t port) {
  const pid_t pid = holder_of(listeners_at(port));
  if (pid == 0) return "";
  std::string name;
  std::ifstream comm(fmt::format("/proc/{}/comm", pid));
  std::getline(comm, name);
  return fmt::format("{} (pid {})", printable(name), pid);
}

Result<UniqueFd> try_listen_at(const std::string& address, std::uint16_t port) {
  boost::system::error_code bad_address;
  const auto numeric = asio::ip::make_address(address, bad_address);
  if (bad_address) return Error{ErrorKind::usage, fmt::format("'{}' is not a numeric IPv4 or IPv6 address", address)};
  const asio::ip::tcp::endpoint endpoint(numeric, port);
  const std::string where = address_text(address, port);
  UniqueFd fd(::socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd && errno == EAFNOSUPPORT && numeric.is_v6() && numeric.is_unspecified())
    return try_listen_at("0.0.0.0", port);
  if (!fd) return system_error("cannot listen at " + where, errno);
  const int on = 1;
  const int off = 0;
  if (numeric.is_v6() && numeric.is_unspecified()) ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
      ::bind(fd.get(), endpoint.data(), static_cast<socklen_t>(endpoint.size())) == 0 &&
      ::listen(fd.get(), kBacklog) == 0) {
    return fd;
  }
  const int error = errno;
  if (port == 0) return system_error("cannot listen at a free port of " + address, error);
  if (error != EADDRINUSE) return system_error("cannot listen at " + where, error);
  return port_taken(where, "", error);
}

Result<UniqueFd> listen_at(const std::string& address, std::uint16_t port) {
  auto listener = try_listen_at(address, port);
  if (listener || port == 0 || listener.error().errno_value != EADDRINUSE) return listener;
  return port_taken(address_text(address, port), port_holder(port), EADDRINUSE);
}

Result<std::uint16_t> port_of_socket(int fd) {
  asio::ip::tcp::endpoint endpoint;
  auto size = static_cast<socklen_t>(endpoint.capacity());
  if (::getsockname(fd, endpoint.data(), &size) != 0) return system_error("the port of a socket", errno);
  return endpoint.port();
}

}  // namespace dtrain
