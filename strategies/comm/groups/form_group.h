#pragma once
// How the ranks of a group come together.
#include <memory>

#include "strategies/comm/bootstrap/group_store.h"
#include "strategies/comm/groups/group.h"

namespace dtrain {

// Collective: the ranks find each other through the store, share memory on each host, and connect the hosts. Throws
// std::runtime_error where the ranks cannot meet, CollectiveError where one dies meanwhile.
std::unique_ptr<CommGroup> form_group(GroupStore& store, const GroupOptions& options);

}  // namespace dtrain
