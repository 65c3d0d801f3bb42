#pragma once
// What the flight recorder is told of a backend's operations, and the words for them.
#include <string>

#include "strategies/comm/flight/flight.h"
#include "strategies/torch/pch.h"

namespace dtrain {

// The recorder's notes of one group. A forked child inherits them and uses none.
class FlightNotes {
 public:
  // As the group has formed under `keys`; null in a world of one rank. Throws ConfigError (flight_settings.h).
  FlightNotes(const c10::intrusive_ptr<c10d::Store>& keys, int rank, int size, const std::shared_ptr<CommGroup>& group);
  // The group is to end.
  void end() { log_.unwatch(); }

  // torch tells a backend its name after the construction: ask again with each operation, one thread at a time.
  void know_name(const c10d::Backend& backend);

  using Ticket = FlightRing::Ticket;
  // A collective was called, or begins at once; in the order of the collectives.
  Ticket collective(c10d::OpType type, at::TensorList tensors, int root, const char* reduction, bool starts);
  // A message was called, and so begins. Any thread. `peer`: P2pCore::kAny for any.
  Ticket message(c10d::OpType type, const at::Tensor& tensor, int peer, int tag);
  void started(const Ticket& ticket) { log_.started(ticket); }
  void ended(const Ticket& ticket, bool well) { log_.ended(ticket, well); }

  // The group's failure with what the recorder says of it in its line; waits for the recorder a second at most.
  std::exception_ptr explained(const std::exception_ptr& error);

 private:
  FlightLog log_;
};

// A key for the group that forms in this store: the same on all its ranks, and no other group's. Rank 0 puts it there
// before the group forms, so that no rank waits for it once it has.
void put_flight_key(const c10::intrusive_ptr<c10d::Store>& store);

// An operation for people, whole: "all_reduce sum of Float [2, 3]". `reduction` may be null, `root` -1.
std::string call_text(c10d::OpType type, at::TensorList tensors, const char* reduction, int root);

// The reduction of several tensors, which are checked already; null where there are none.
const char* flight_reduction(const c10d::ReduceOp& op, at::TensorList tensors);

}  // namespace dtrain
