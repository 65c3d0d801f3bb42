#pragma once
// One rank of unshard_world.h: it tells its plan (unshard_core.h) what the program does, and gives the actions to its
// streams as the engine does (strategies/parallel), with memory from an allocator such as torch's, which gives what was
// freed last away again at once.
#include <array>
#include <vector>

#include "strategies/shard/unshard_core.h"
#include "test/sim/stream_machine.h"

namespace dtrain::sim {

// What is planted, to see that it is found.
enum class PlanFault {
  none,
  use_before_gather,     // the computation does not wait for the gather
  freed_in_use,          // a group is freed as its unit begins
  left_too_early,        // the memory of a group may be taken while its unit runs
  gather_before_left,    // a gather does not wait until the memory is free
  values_too_early,      // a gather does not wait for the optimizer
  not_gathered,          // the gather records nothing
  reduce_before_filled,  // a reduction does not wait for the gradients
  row_too_early,         // a row of gradients is used again while it is reduced
  average_too_late,      // the computation does not wait for the average
  too_far_ahead,         // groups are gathered ahead without a limit
  other_order,           // one rank gathers before it reduces, where the others reduce first
  left_out,              // one rank leaves out the reductions after some
};

struct PlanSettings {
  std::vector<UnshardCore::Facts> groups;
  int ahead = 1;
  std::int64_t ahead_bytes = UnshardCore::kAnyBytes;
  UnshardCore::Reduce reduce = UnshardCore::Reduce::passed;
  bool row_stays = false;   // each group has one row of gradients
  bool host_waits = false;  // as with a CPU
  PlanFault fault = PlanFault::none;
};

// Collectives have streams of their own, as NCCL's have.
struct PlanMeeting {
  StreamMachine::Id stream = 0, meeting = 0;
  bool exists = false;
};
struct PlanMeetings {
  PlanMeeting sharing, near, replicas;
};

class UnshardRank {
 public:
  UnshardRank(StreamMachine& machine, int rank, const PlanSettings& settings, const PlanMeetings& meetings);

  UnshardCore& core() { return core_; }
  void carry_out(const UnshardCore::Actions& actions);
  // The program computes with a group's parameters, or writes a gradient. Throws if the group is not whole.
  void use(std::size_t group);
  void gradient(std::size_t group);
  // The parts get new values. The gradients are forgotten.
  void update();
  // Of a backward that has reduced, and of a program that has ended. Throw if that is not so.
  void require_reduced() const;
  void require_free() const;
  // Between the calls of the core.
  void hold(bool holds) { holds_ = holds; }

 private:
  using Id = StreamMachine::Id;
  using Do = UnshardCore::Do;
  using Action = UnshardCore::Action;
  using Label = StreamMachine::Label;
  static constexpr Id kNothing = ~Id{0};
  struct One {
    Id part, average;
    Id whole = kNothing, near = kNothing, row = kNothing, moving = kNothing, piece = kNothing;  // memory
    Id reduced = kNothing;                                                                      // event
    bool usable = false;
    std::uint64_t in_row = 0, in_piece = 0, in_average = 0;  // the last value that was written
    bool unreduced = false;
  };
  using Pool = std::vector<Id>;
  Id take(Pool& pool, const char* name);
  static void give_back(Pool& pool, Id& memory);
  bool has(PlanFault fault) const { return settings_.fault == fault; }
  Action planted(Action action) const;
  bool is_put_off(const Action& action);
  void carry_out_one(const Action& action);
  void act(const Action& action, One& one);
  void gather(const Action& action, One& one);
  void reduce(const Action& action, One& one);
  void average(const Action& action, One& one);
  void share_near(const Action& action, One& one);
  Id launch(Id from, const PlanMeeting& meeting, Label label, Id input, std::uint64_t value, Id output);
  void require_ahead();
  Id event(UnshardCore::Event number) const { return events_[number]; }
  Id stream(UnshardCore::Stream which) const { return streams_[static_cast<std::size_t>(which)]; }
  Id compute() const { return stream(UnshardCore::Stream::compute); }

  StreamMachine& machine_;
  int rank_;
  PlanSettings settings_;
  PlanMeetings meetings_;
  UnshardCore core_;
  std::array<Id, 3> streams_;
  std::vector<Id> events_;
  std::vector<One> groups_;
  Pool computes_, gathers_, reduces_;  // memory that is free, by the stream that it belongs to
  UnshardCore::Actions put_off_;
  std::uint64_t version_ = 1, written_ = 0;
  int reductions_ = 0;
  bool holds_ = false;
};

}  // namespace dtrain::sim
