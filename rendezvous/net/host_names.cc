#include "rendezvous/net/host_names.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "rendezvous/base/printable.h"

namespace dtrain {
namespace {

using Addrinfo = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

Addrinfo ask(const std::string& name, int flags, int& error) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  error = ::getaddrinfo(name.c_str(), nullptr, &hints, &found);
  return {error == 0 ? found : nullptr, ::freeaddrinfo};
}

// With the interface for an IPv6 address that is only good there.
std::string numeric(const addrinfo& found) {
  char text[NI_MAXHOST] = {};
  const int error = ::getnameinfo(found.ai_addr, found.ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return error == 0 ? text : "";
}

bool of_host_names(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

}  // namespace

bool is_numeric_address(const std::string& text) {
  int error = 0;
  return ask(text, AI_NUMERICHOST, error) != nullptr;
}

bool can_be_host_name(std::string_view name) {
  constexpr std::size_t kLongest = 253, kLongestLabel = 63;
  if (name.ends_with('.')) name.remove_suffix(1);
  if (name.empty() || name.size() > kLongest || name == "invalid" || name.ends_with(".invalid")) return false;
  bool digits = true;  // of the last label
  std::size_t label = 0;
  for (const char c : name) {
    if (c == '.') {
      if (label == 0) return false;
      label = 0;
      digits = true;
      continue;
    }
    if (!of_host_names(c) || ++label > kLongestLabel) return false;
    digits = digits && c >= '0' && c <= '9';
  }
  return label > 0 && !digits;
}

Result<std::vector<std::string>> addresses_of_host(const std::string& name) {
  int error = 0;
  const Addrinfo found = ask(name, 0, error);
  if (!found)
    return Error{ErrorKind::usage, fmt::format("there is no host {}: {}", printable(name), ::gai_strerror(error)),
                 can_be_host_name(name) ? EAGAIN : 0};
  std::vector<std::string> addresses;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const addrinfo* i = found.get(); i != nullptr; i = i->ai_next) {
      if (i->ai_family != family) continue;
      std::string address = numeric(*i);
      if (std::find(addresses.begin(), addresses.end(), address) == addresses.end()) addresses.push_back(address);
    }
  }
  return addresses;
}

}  // namespace dtrain
