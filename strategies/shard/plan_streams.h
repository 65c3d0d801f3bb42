#pragma once
// The streams and events of a plan (unshard_core.h) on a device. The computation's is whichever the program has as its
// current one. There are none for a CPU, where nothing runs behind the program's back but collectives.
#include <c10/core/Event.h>

#include <functional>
#include <optional>
#include <vector>

#include "strategies/shard/unshard_core.h"
#include "strategies/torch/pch.h"

namespace dtrain {

class PlanStreams {
 public:
  // `events`: of the plan.
  PlanStreams(at::Device device, std::size_t events);
  // The computation waits for the others: their memory is about to go.
  ~PlanStreams();
  PlanStreams(const PlanStreams&) = delete;
  PlanStreams& operator=(const PlanStreams&) = delete;

  // False: actions are carried out where the program is, and events mean nothing.
  bool are_there() const { return gather_.has_value(); }
  // Only if they are there: `act` on the stream of the action, after what it waits for, and before what it records.
  void carry_out(const UnshardCore::Action& action, const std::function<void()>& act);

 private:
  c10::Stream current() const;
  c10::Stream stream_of(UnshardCore::Stream stream) const;

  at::Device device_;
  std::optional<c10::Stream> gather_, reduce_;
  std::vector<c10::Event> events_;
};

}  // namespace dtrain
