#pragma once
// Whose a name or address is: this host's, or another's. By the addresses of its interfaces, never by names.
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/base/result.h"

namespace dtrain::cli {

// `localhost` or a literal loopback address: what is there is on this host, for every host.
bool is_loopback_name(std::string_view name);

// The numeric address of this host that `name` means, IPv4 first. Errors: no such name; another host's address. May
// ask the network's name service; not for localhost and for numbers.
Result<std::string> own_address(const std::string& name);

struct InterfaceAddress {
  std::string interface;
  std::string address;  // numeric
  bool operator==(const InterfaceAddress&) const = default;
};

// Where the nodes of a job across hosts meet, as seen from this one.
struct MeetingPlace {
  std::vector<std::string> addresses;  // numeric, IPv4 first
  // Where this host would listen: one of them; "::", all of its own, where the name means a loopback address here (as
  // Debian's /etc/hosts has it); empty: they are another host's.
  std::string own;
  std::string interface;                       // that leads there, not the loopback; empty: cannot be told
  std::vector<InterfaceAddress> of_this_host;  // but loopback
};

// Pure. `interfaces`: all of this host. `interface` is filled where the place is on this host.
MeetingPlace judge_place(const std::vector<std::string>& addresses, const std::vector<InterfaceAddress>& interfaces);

// Errors: no such name; no address that others could connect to.
Result<MeetingPlace> meeting_place(const std::string& name);

}  // namespace dtrain::cli
