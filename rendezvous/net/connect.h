#pragma once
// A TCP connection that is made without waiting for it.
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain {

// Begin to connect to a numeric address. Non-blocking, close-on-exec, tuned. When the socket has
// become writable, connect_error() says how it went.
Result<UniqueFd> begin_connect(const std::string& address, std::uint16_t port);

// For a connection between hosts: small writes go at once, and what was lost is sent again after times that are short
// (50 ms and the round trip, where the kernel lets us say so; else 200 ms) and do not double as long as little is under
// way. So a lossy network costs a heartbeat a fraction of a second.
void tune_link(int fd);

// This end's numeric address; empty: it has none.
std::string own_address(int fd);

// An errno; 0: it is connected. With nobody there, a connection to a port of the range for clients can meet itself:
// that is ECONNREFUSED.
int connect_error(int fd);

// Numeric; IPv4 is not written as IPv6.
std::string peer_address(int fd);

struct NetworkPlace {
  std::string address;  // numeric
  std::uint16_t port = 0;
};

// Whether these places, of one process, say that it is gone: one refuses, and no other one may have somebody who
// listens. A place counts so if it is connected, or has not answered within `limit`, for which this waits at most. Not
// if there is no way to it from here.
bool nobody_listens(const std::vector<NetworkPlace>& places, std::chrono::milliseconds limit);

}  // namespace dtrain
