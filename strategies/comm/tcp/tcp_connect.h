#pragma once
// How ranks of different hosts connect. Each rank listens at a free port of reachable_address(), and tells the others
// through the store where that is, with 256 random bits. Of two ranks the higher one connects, and sends these bits and
// its rank first. A stranger's connection is closed without a word. The port is closed when all ranks have come, or at
// the deadline. What follows on a connection is neither encrypted nor authenticated (docs/security.md).
#include <array>
#include <map>
#include <vector>

#include "strategies/comm/bootstrap/peers.h"
#include "strategies/comm/tcp/socket.h"

namespace dtrain {

// The connections to one rank. Words about failures and the program's messages have connections of their own, since
// they must not wait for the bytes of collectives.
struct Lanes {
  Socket data, control, messages;

  // The lanes in the order of their numbers.
  std::array<Socket*, 3> all() { return {&data, &control, &messages}; }
};

// Collective of each rank and its `others`. The sockets are non-blocking. Throws std::runtime_error if a rank does not
// come or cannot be reached.
std::map<int, Lanes> connect_ranks(GroupStore& store, int rank, const std::vector<int>& others,
                                   GroupStore::Deadline deadline);

}  // namespace dtrain
