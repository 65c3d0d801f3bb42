#pragma once
// Keys of the store that nobody has used. The same ranks meet again in one store if a launcher forms a new round on it,
// with other ranks for the same processes, or if a program ends its groups and forms new ones. Numbers that each rank
// counts, or is told, need not agree then.
#include <string>

#include "strategies/comm/bootstrap/group_store.h"

namespace dtrain {

// Collective: a name for this attempt to meet, which no earlier attempt of these ranks has had. All keys under that
// name are fresh. Throws std::runtime_error if a rank did not come by rank 0's deadline, or if ranks were told
// different numbers of ranks; all ranks throw the same. The others wait for rank 0's answer a few seconds longer than
// their own deadline.
std::string new_attempt(GroupStore& store, int rank, int ranks, GroupStore::Deadline deadline);

}  // namespace dtrain
