#pragma once
// How ranks of different hosts connect. Each listens at a free port of own_address(), and tells the others through the
// store where that is, with 256 random bits; of two ranks the higher one connects, and shows these bits and its rank
// before anything else is read of it. A stranger is closed without a word. The port is closed when all have come, and
// at the deadline. What follows on a connection is neither encrypted nor authenticated (docs/security.md).
#include <array>
#include <map>
#include <vector>

#include "strategies/comm/peers.h"
#include "strategies/comm/socket.h"

namespace dtrain {

// To one rank: the bytes of collectives, and beside them words about failures and the program's messages, which must
// not wait for those.
struct Lanes {
  Socket data, control, messages;

  // In the order of their numbers.
  std::array<Socket*, 3> all() { return {&data, &control, &messages}; }
};

// Collective among each rank and its `others`. Non-blocking sockets. Throws std::runtime_error where a rank does not
// come or cannot be reached.
std::map<int, Lanes> connect_ranks(MeetingPlace& place, int rank, const std::vector<int>& others,
                                   MeetingPlace::Deadline deadline);

}  // namespace dtrain
