#pragma once
// What the flight recorder writes of an operation of c10d.
#include <string>

#include "strategies/comm/flight_ring.h"
#include "strategies/torch/pch.h"

namespace dtrain {

FlightCall flight_call(c10d::OpType type, at::TensorList tensors);

// The same for people, whole: "all_reduce sum of Float [2, 3]". `reduction` may be null, `root` -1.
std::string call_text(c10d::OpType type, at::TensorList tensors, const char* reduction, int root);

// The reduction of several tensors, which are checked already; null where there are none.
const char* flight_reduction(const c10d::ReduceOp& op, at::TensorList tensors);

// A key for the group that forms in this store: the same on all its ranks, and no other group's. Rank 0 puts it there
// before the group forms, so that no rank waits for it once it has.
void put_flight_key(const c10::intrusive_ptr<c10d::Store>& store);
std::string flight_key(const c10::intrusive_ptr<c10d::Store>& store);

// What people call the group: torch's description, where there is one, and its name.
std::string flight_name(const c10d::Backend& backend);

// A CollectiveError with more in its line; any other as it is.
std::exception_ptr with_more(const std::exception_ptr& error, const std::string& more);

}  // namespace dtrain
