#pragma once
// Whether a name or address is one of this host, by the addresses of its interfaces.
#include <string>

#include "rendezvous/base/result.h"

namespace dtrain::cli {

// The numeric address of this host that `name` means, IPv4 first. Errors: no such name; another host's address. May
// ask the network's name service; not for localhost and for numbers.
Result<std::string> own_address(const std::string& name);

}  // namespace dtrain::cli
