#pragma once
// Keys that nobody has used: the same ranks meet again in one store where a launcher forms a new round on it, with
// other ranks for the same processes, or where a program ends its groups and forms new ones. Numbers that each rank
// counts, or is told, need not agree then.
#include <string>

#include "strategies/comm/peers.h"

namespace dtrain {

// Collective: a name for what these ranks do now, which no earlier attempt of theirs has had. All keys under it are
// fresh. Throws std::runtime_error where a rank did not come by rank 0's deadline, the same on all others, which wait a
// few seconds longer than their own for it; or where ranks were told different numbers of ranks.
std::string new_attempt(MeetingPlace& place, int rank, int ranks, MeetingPlace::Deadline deadline);

}  // namespace dtrain
