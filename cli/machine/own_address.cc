#include "cli/machine/own_address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>

#include "cli/base/usage_error.h"
#include "rendezvous/base/unique_fd.h"
#include "rendezvous/net/host_names.h"

namespace dtrain::cli {
namespace {

// With the interface for an IPv6 address that is only good there.
std::string numeric(const sockaddr* address) {
  const socklen_t size = address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  char text[NI_MAXHOST] = {};
  return ::getnameinfo(address, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0 ? text : "";
}

bool is_loopback(std::string_view address) { return address.starts_with("127.") || address == "::1"; }

std::vector<InterfaceAddress> interfaces() {
  std::vector<InterfaceAddress> found;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return found;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(all, ::freeifaddrs);
  for (const ifaddrs* i = all; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || (i->ifa_addr->sa_family != AF_INET && i->ifa_addr->sa_family != AF_INET6)) continue;
    found.push_back({i->ifa_name, numeric(i->ifa_addr)});
  }
  return found;
}

// Which address of this host the kernel would send from: it is asked for the way, nothing is sent.
std::string source_address(const std::string& to) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* found = nullptr;
  if (::getaddrinfo(to.c_str(), nullptr, &hints, &found) != 0) return "";
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
  const addrinfo& target = *found;
  sockaddr_in6 place{};  // either family; the port is of no importance, but 0 is refused
  std::copy_n(reinterpret_cast<const char*>(target.ai_addr), target.ai_addrlen, reinterpret_cast<char*>(&place));
  place.sin6_port = htons(9);
  const UniqueFd fd(::socket(target.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage self{};
  socklen_t size = sizeof self;
  const bool found_way = fd && ::connect(fd.get(), reinterpret_cast<sockaddr*>(&place), target.ai_addrlen) == 0 &&
                         ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&self), &size) == 0;
  return found_way ? numeric(reinterpret_cast<sockaddr*>(&self)) : "";
}

std::string interface_of(const std::string& address, const std::vector<InterfaceAddress>& all) {
  for (const InterfaceAddress& i : all)
    if (i.address == address && !is_loopback(address)) return i.interface;
  return "";
}

}  // namespace

bool is_loopback_name(std::string_view name) { return name == "localhost" || is_loopback(name); }

std::vector<InterfaceAddress> reachable_addresses() {
  std::vector<InterfaceAddress> found = interfaces();
  std::erase_if(found, [](const InterfaceAddress& i) {
    return is_loopback(i.address) || i.address.starts_with("fe80:") || i.address.starts_with("169.254.") ||
           i.interface.starts_with("docker") || i.interface.starts_with("virbr") || i.interface.starts_with("lxcbr");
  });
  // IPv4 first.
  std::stable_partition(found.begin(), found.end(),
                        [](const InterfaceAddress& i) { return i.address.find(':') == std::string::npos; });
  return found;
}

Result<std::string> own_address(const std::string& name) {
  if (name == "localhost") return std::string("127.0.0.1");
  auto addresses = addresses_of_host(name);
  if (!addresses) return addresses.error();
  const auto all = interfaces();
  for (const std::string& address : *addresses) {
    if (is_loopback(address) ||
        std::any_of(all.begin(), all.end(), [&](const InterfaceAddress& i) { return i.address == address; }))
      return address;
  }
  return usage_error(fmt::format("{} is not an address of this host", addresses->empty() ? name : addresses->front()));
}

MeetingAddress judge_meeting_address(const std::vector<std::string>& addresses,
                                     const std::vector<InterfaceAddress>& all) {
  MeetingAddress place;
  place.addresses = addresses;
  for (const InterfaceAddress& i : all)
    if (!is_loopback(i.address)) place.of_this_host.push_back(i);
  for (const std::string& address : addresses) {
    place.interface = interface_of(address, all);
    if (place.interface.empty()) continue;
    place.own = address;
    return place;
  }
  if (std::none_of(addresses.begin(), addresses.end(), is_loopback)) return place;
  place.own = "::";
  // With a single one there is no choice.
  for (const InterfaceAddress& i : place.of_this_host) {
    if (!place.interface.empty() && place.interface != i.interface) {
      place.interface.clear();
      break;
    }
    place.interface = i.interface;
  }
  return place;
}

Result<MeetingAddress> meeting_address(const std::string& name) {
  auto addresses = addresses_of_host(name);
  if (!addresses) return addresses.error();
  for (const std::string& address : *addresses) {
    if (address == "0.0.0.0" || address == "::")
      return usage_error(fmt::format("other nodes cannot connect to {}: name the host instead", address));
  }
  const auto all = interfaces();
  MeetingAddress place = judge_meeting_address(*addresses, all);
  for (const std::string& address : place.addresses) {
    if (place.own.empty() && place.interface.empty()) place.interface = interface_of(source_address(address), all);
  }
  return place;
}

}  // namespace dtrain::cli
