#pragma once
// A TCP port on which nothing listens. A socket that is bound and does not listen keeps the port until the process
// ends: the kernel gives it to nobody else, and whoever binds it by its number with SO_REUSEADDR gets it. The socket
// has every address, because a store binds every address: a port that is free on the loopback alone may be some
// connection's on another address.
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <stdexcept>

namespace dtrain::test {

inline std::uint16_t free_port() {
  const int fd = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);  // never closed: see above
  const int on = 1;
  const int off = 0;
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_any;
  socklen_t size = sizeof(address);
  if (::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
      ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) != 0 ||
      ::bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw std::runtime_error("no free port");
  }
  return ntohs(address.sin6_port);
}

}  // namespace dtrain::test
