#pragma once
// Carries out what restore_plan.h finds: the pieces of a state get their values from the memories of all ranks.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dtrain/checkpoint.h"
#include "dtrain/group.h"
#include "strategies/kept/restore_plan.h"

namespace dtrain::kept {

// Where these bytes of a slot of this rank are.
using ValuesAt = std::function<const std::byte*(const Place& place, std::uint64_t at)>;

// Collective. Fills `wanted` with the state that has been chosen. Each rank gets what it needs from the ranks that have
// it: in turn r, rank i sends to rank i + r. `what` begins the text of an error. Throws CheckpointError on all ranks if
// nobody has an element, and CollectiveError.
void refill(const Group& world, const std::string& what, const std::vector<Told>& of_ranks, const Stamp& stamp,
            const std::vector<StatePiece*>& wanted, const ValuesAt& values_at);

}  // namespace dtrain::kept
