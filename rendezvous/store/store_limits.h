#pragma once
// What a store may use, and what it reports about itself.
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "rendezvous/store/store_core.h"
#include "rendezvous/store/store_wire.h"

namespace dtrain {

struct StoreStats {
  std::uint64_t requests = 0;              // carried out here, all operations; 0 where they are only forwarded
  std::uint64_t forwarded_bytes = 0;       // of requests, to the host of the store
  std::uint64_t connections_accepted = 0;  // since the start, refused ones included
  std::uint64_t connections_refused = 0;   // wrong user, wrong greeting, broken protocol, over a limit
  std::size_t connections_open = 0;
  std::size_t connections_waiting = 0;  // inside WAIT or BARRIER, those behind links included
  std::size_t links = 0;                // at a host: of other nodes; at an edge: 1 while it is up
  std::size_t link_connections = 0;     // at a host: of workers behind links
  std::size_t keys = 0;
  std::size_t bytes = 0;  // memory of keys, values, queues and waits
};

struct StoreHostLimits {
  StoreWireLimits wire;
  StoreCoreLimits core;
  // Connections at a time. More are left in the kernel's backlog until one ends.
  std::size_t connections = 65536;
  // Connections that have not sent a valid greeting yet. One more than that closes the one that has been silent
  // longest.
  std::size_t silent_connections = 4096;
  std::chrono::milliseconds greeting{3000};
  // Replies a client has not read. One connection over its limit is closed; so is the one that takes all of them over
  // `buffer_bytes`, which counts unfinished requests as well.
  std::size_t output_bytes = std::size_t{129} << 20;
  std::size_t buffer_bytes = std::size_t{512} << 20;
  // Links of other nodes, and connections of workers behind all of them. A link over the limit is refused, a connection
  // over it is closed.
  std::size_t links = 16384;
  std::size_t link_connections = std::size_t{1} << 20;
};

}  // namespace dtrain
