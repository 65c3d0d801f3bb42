#pragma once
// The address of this host at which other hosts reach it.
#include <string>

namespace dtrain {

// An IPv4 or IPv6 address as digits: that of the interface that GLOO_SOCKET_IFNAME names (the first one of a list);
// else the address from which DTRAIN_RANK0_ADDR, or MASTER_ADDR, is reached; else that of the first interface that is
// up; else that of the loopback. Throws std::runtime_error if the named interface has no address.
std::string reachable_address();

}  // namespace dtrain
