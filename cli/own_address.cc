#include "cli/own_address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "cli/text.h"

namespace dtrain::cli {
namespace {

std::string numeric(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = {};
  const void* bytes = address->sa_family == AF_INET
                          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(address)->sin_addr)
                          : static_cast<const void*>(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
  return ::inet_ntop(address->sa_family, bytes, text, sizeof text) != nullptr ? text : "";
}

bool is_loopback(const std::string& address) { return address.starts_with("127.") || address == "::1"; }

bool on_an_interface(const std::string& address) {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return false;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(all, ::freeifaddrs);
  for (const ifaddrs* i = all; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || (i->ifa_addr->sa_family != AF_INET && i->ifa_addr->sa_family != AF_INET6)) continue;
    if (numeric(i->ifa_addr) == address) return true;
  }
  return false;
}

}  // namespace

Result<std::string> own_address(const std::string& name) {
  if (name == "localhost") return std::string("127.0.0.1");
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(name.c_str(), nullptr, &hints, &found); error != 0)
    return Error{ErrorKind::usage, fmt::format("there is no host {}: {}", printable(name), ::gai_strerror(error))};
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
  std::string foreign;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const addrinfo* i = found; i != nullptr; i = i->ai_next) {
      if (i->ai_family != family) continue;
      const std::string address = numeric(i->ai_addr);
      if (is_loopback(address) || on_an_interface(address)) return address;
      foreign = foreign.empty() ? address : foreign;
    }
  }
  return Error{ErrorKind::usage,
               fmt::format("{} is not an address of this host; this version runs the nodes of a job on "
                           "one host",
                           foreign)};
}

}  // namespace dtrain::cli
