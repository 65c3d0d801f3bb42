#pragma once
// A TCP connection that is made without waiting for it.
#include <cstdint>
#include <string>

#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain {

// Begin to connect to a numeric address. Non-blocking, close-on-exec, no delay of small writes. When the socket has
// become writable, connect_error() says how it went.
Result<UniqueFd> begin_connect(const std::string& address, std::uint16_t port);

// An errno; 0: it is connected. With nobody there, a connection to a port of the range for clients can meet itself:
// that is ECONNREFUSED.
int connect_error(int fd);

}  // namespace dtrain
