#pragma once
// Names of hosts and their addresses. Asks the machine's name service, which may take seconds: see beside_loop.h.
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/base/result.h"

namespace dtrain {

// Numeric addresses, IPv4 first. An error's errno_value is EAGAIN where the name may be known later, as that of a host
// that is still starting.
Result<std::vector<std::string>> addresses_of_host(const std::string& name);

// Whether it can be the name of a host at all: letters, digits, '-', '_' and '.', no number that is not an address, and
// nothing in `invalid`, which is there for names that never are (RFC 6761).
bool can_be_host_name(std::string_view name);
bool is_numeric_address(const std::string& text);

}  // namespace dtrain
