// See reachable_address.h.
#include "strategies/comm/tcp/reachable_address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <stdexcept>

#include "strategies/comm/tcp/socket.h"

namespace dtrain {
namespace {

std::string digits(const sockaddr* address) {
  std::array<char, NI_MAXHOST> text{};
  const socklen_t size = address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  const int error = ::getnameinfo(address, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  return error == 0 ? text.data() : "";
}

// Whether the address means something to other hosts, whatever interface they use.
bool is_common(const sockaddr* address) {
  if (address->sa_family == AF_INET) return true;
  return address->sa_family == AF_INET6 &&
         !IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

bool is_loopback(const sockaddr* address) {
  if (address->sa_family == AF_INET)
    return ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr) >> 24 == 127;
  return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

// The interface's address, IPv4 before IPv6; empty if there is none. An empty name stands for any interface but the
// loopback.
std::string address_of_interface(const std::string& name) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return "";
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, ::freeifaddrs);
  std::string found;
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_UP) == 0 || !is_common(one->ifa_addr)) continue;
    if (name.empty() ? (one->ifa_flags & IFF_LOOPBACK) != 0 : name != one->ifa_name) continue;
    if (one->ifa_addr->sa_family == AF_INET) return digits(one->ifa_addr);
    if (found.empty()) found = digits(one->ifa_addr);
  }
  return found;
}

// The address that packets to `host` would come from: to connect a datagram socket sends nothing. Empty if that is the
// loopback, or the name is not known.
std::string address_towards(const char* host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* list = nullptr;
  if (::getaddrinfo(host, "9", &hints, &list) != 0) return "";
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, ::freeaddrinfo);
  for (const addrinfo* one = list; one != nullptr; one = one->ai_next) {
    const Socket probe(::socket(one->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage local{};
    auto* address = reinterpret_cast<sockaddr*>(&local);
    socklen_t size = sizeof local;
    if (::connect(probe.fd(), one->ai_addr, one->ai_addrlen) != 0) continue;
    if (::getsockname(probe.fd(), address, &size) == 0 && is_common(address) && !is_loopback(address))
      return digits(address);
  }
  return "";
}

}  // namespace

std::string reachable_address() {
  if (const char* names = std::getenv("GLOO_SOCKET_IFNAME"); names != nullptr && *names != '\0') {
    const std::string list = names, first = list.substr(0, list.find(','));
    std::string address = address_of_interface(first);
    if (address.empty())
      throw std::runtime_error(fmt::format("GLOO_SOCKET_IFNAME: no interface {} with an address is up", first));
    return address;
  }
  for (const char* variable : {"DTRAIN_RANK0_ADDR", "MASTER_ADDR"}) {
    const char* host = std::getenv(variable);
    std::string address = host == nullptr ? "" : address_towards(host);
    if (!address.empty()) return address;
  }
  std::string any = address_of_interface("");
  return any.empty() ? "127.0.0.1" : any;
}

}  // namespace dtrain
