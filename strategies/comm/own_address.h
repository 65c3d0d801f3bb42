#pragma once
// At which of its addresses other hosts reach this one.
#include <string>

namespace dtrain {

// An IPv4 or IPv6 address as digits: of the interface that GLOO_SOCKET_IFNAME names (the first one of a list); else the
// one from which DTRAIN_RANK0_ADDR, or MASTER_ADDR, is reached; else of the first interface that is up; else of the
// loopback. Throws std::runtime_error where the named interface has none.
std::string own_address();

}  // namespace dtrain
