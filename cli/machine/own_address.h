#pragma once
// Tells whether a name or address is this host's or another's, by the addresses of this host's interfaces.
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/base/result.h"

namespace dtrain::cli {

// `localhost` or a literal loopback address. On every host these mean that host itself.
bool is_loopback_name(std::string_view name);

// The numeric address of this host that `name` means, IPv4 first. Errors: no such name; another host's address. The
// function may ask the network's name service, but not about localhost and numbers.
Result<std::string> own_address(const std::string& name);

struct InterfaceAddress {
  std::string interface;
  std::string address;  // numeric
  bool operator==(const InterfaceAddress&) const = default;
};

// Of this host, by which others may reach it: no loopback, nothing that is good on one link alone, and no bridge of
// containers or virtual machines, whose addresses are the same on every host.
std::vector<InterfaceAddress> reachable_addresses();

// Where the nodes of a job across hosts meet, as seen from this one.
struct MeetingAddress {
  std::vector<std::string> addresses;  // numeric, IPv4 first
  // Where this host would listen: at one of `addresses`; at "::", all of its own, if the name means a loopback address
  // here (as Debian's /etc/hosts has it). Empty: the addresses are another host's.
  std::string own;
  std::string interface;                       // leads to `own`, and is not the loopback; empty: unknown
  std::vector<InterfaceAddress> of_this_host;  // without the loopback's
};

// Pure. `interfaces` are all of this host. The result has an `interface` if the place is on this host.
MeetingAddress judge_meeting_address(const std::vector<std::string>& addresses,
                                     const std::vector<InterfaceAddress>& interfaces);

// Errors: no such name; no address that others could connect to.
Result<MeetingAddress> meeting_address(const std::string& name);

}  // namespace dtrain::cli
