#pragma once
// A listening TCP socket, and if the port is taken: by whom.
#include <cstdint>
#include <string>

#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"
#include "rendezvous/net/address_text.h"

namespace dtrain {

// Bind and listen at a numeric address of this host ("::": all of them, IPv4 too); port 0: any free one. Non-blocking,
// close-on-exec. The error names address and port; errno_value is EADDRINUSE if the port is taken.
Result<UniqueFd> try_listen_at(const std::string& address, std::uint16_t port);

// The same for those who show the error: it also names the process that has the port, where /proc (all of it) tells.
Result<UniqueFd> listen_at(const std::string& address, std::uint16_t port);

Result<std::uint16_t> port_of_socket(int fd);

// "python3 (pid 123)" for the process that listens at this port of this host, ", ..." after the first; empty where that
// cannot be found out, as with another user's process.
std::string port_holder(std::uint16_t port);

}  // namespace dtrain
