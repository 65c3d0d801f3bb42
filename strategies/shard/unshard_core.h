#pragma once
// When the groups of a sharded model are gathered, freed and reduced, on which stream, and after which event. The
// engine tells the core what the program does, and carries out the actions that come back, in their order. All ranks
// run their units in the same order, so they get the same actions: what is decided here depends on nothing else. Pure;
// test/sim/unshard_world.h runs the actions of several ranks on streams that take any time.
//
// The order of a forward is remembered: while a group is computed with, the next one is gathered, as in Zhao et al.,
// "PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel", VLDB 2023.
//
// Streams and memory. What a stream is given it does in order, and it knows nothing of the others but through events.
//   - Whole parameters are memory of the gather stream. A gather waits for the last event that the computation recorded
//     as it left a group, or as the optimizer was done: so it may take the memory of any group that was freed before.
//   - A row of gradients is memory of the computation, which has filled it at `filled`. It may be used again after
//     `wait_reduced`. This rank's part of the average is memory of the reduce stream.
// On a CPU a gather and a reduction go on by themselves, the waits are the program's, and the events mean nothing.
#include <cstddef>
#include <cstdint>
#include <vector>

namespace dtrain {

class UnshardCore {
 public:
  using Group = std::size_t;
  // What becomes of a group between its forward and its backward.
  enum class Between : std::uint8_t {
    sharded,
    near,  // shared by few ranks, near to each other
    whole
  };
  struct Facts {
    Between between = Between::sharded;
    bool trains = true;      // it has a parameter that needs a gradient
    std::int64_t bytes = 0;  // that a gather takes
  };
  // How backward will come to what a forward returns.
  enum class Return : std::uint8_t {
    never,
    by_rerun,    // it runs the forward again, and comes to what this one returns
    announced,   // before_backward() comes before backward needs the group again
    unannounced  // it does not: the group stays whole until a backward has ended
  };
  enum class Do : std::uint8_t {
    updated,      // the parameters of all groups have values: nothing to do but to record that
    gather,       // begin to make the group whole
    wait,         // until it is: the program is about to use it
    free,         // it is sharded from now on
    share_near,   // the same, but among few ranks; it is gathered from those then, or freed
    filled,       // its gradients are there: nothing to do but to record that
    reduce,       // begin to reduce them
    average,      // end that, over all copies of the model too, and add the average to this rank's part
    wait_reduced  // until it is there: the row may be used again
  };
  // In `compute` the program computes.
  enum class Stream : std::uint8_t { compute, gather, reduce };
  // A number from 0 on, below events(). One that is recorded again stands for the later place.
  using Event = std::uint32_t;
  static constexpr Event kNoEvent = 0xffff'ffff;
  struct Action {
    Do what;
    Stream stream;         // that it runs on
    Event waits, records;  // the stream waits for that one first, and records this one after it; or kNoEvent
    Group group;           // 0 for `updated`
    friend bool operator==(const Action&, const Action&) = default;
  };
  using Actions = std::vector<Action>;

  // When groups are reduced: each as backward has passed it, or in their order, each as soon as all gradients of it and
  // of those before it are there, or all as backward ends.
  enum class Reduce : std::uint8_t { passed, in_order, at_end };

  // `ahead`: so many groups may be gathered before the program comes to them, and of so many bytes together. One that
  // is too much waits until the program has come to others, or to itself.
  static constexpr std::int64_t kAnyBytes = INT64_MAX;
  // `reducing`: a row of gradients is filled while so many are on their way. Without a bound a rank that is ahead of
  // the others would keep more and more of them.
  UnshardCore(std::vector<Facts> groups, int ahead, Reduce reduce = Reduce::passed,
              std::int64_t ahead_bytes = kAnyBytes, std::size_t reducing = 1);
  std::size_t events() const { return kEventsOfGroup * groups_.size() + 1; }

  // The program calls the whole model. `learns`: gradients are enabled.
  void begin_forward(bool learns);
  // A unit is about to run, or has run, or ended with an exception. Units may lie in each other, and one may run
  // several times. One that runs within backward is run again (recomputation).
  Actions before_forward(Group group, bool learns);
  Actions after_forward(Group group, Return back);
  Actions forward_failed(Group group);

  // Every backward that synchronises reduces all groups that train, whatever it came through. Which way it took may
  // differ between ranks, unless groups are reduced as it has passed them; but a gradient that comes after its group's
  // reduction does so on all ranks. The backward before may have ended with an exception.
  void begin_backward(bool sync);
  // Backward is at the outputs of a unit, or has passed its inputs.
  Actions before_backward(Group group);
  Actions after_backward(Group group);
  // A gradient is about to be written into the row that the last reduction of the group reads, if it has only one row.
  Actions before_gradient(Group group);
  // `all`: no gradient of the group is missing any more.
  Actions gradient_came(Group group, bool all);
  Actions end_backward();
  // It ended with an exception, and no other one has begun. Nothing if there was none.
  Actions backward_failed();

  // All groups are whole until they are released. Calls may lie in each other.
  Actions hold();
  Actions release();
  bool is_held() const { return holders_ > 0; }
  // A forward of the whole model ended with an exception, or the parameters are about to get new values: nothing reads
  // them any more, and what was gathered is old.
  Actions free_all();
  // They have them. What was gathered in between is old too.
  Actions updated();

 private:
  enum class State : std::uint8_t { sharded, near, coming, whole };
  enum class Mark : std::uint8_t { gathered, left, filled, reduced };
  static constexpr std::size_t kEventsOfGroup = 4;
  static Event event(Group group, Mark mark) {
    return static_cast<Event>(kEventsOfGroup * group) + static_cast<Event>(mark);
  }
  struct One {
    Facts facts;
    State state = State::sharded;
    int running = 0;        // forwards that have begun and not ended
    int ran = 0;            // forwards whose backward may come, since the last one ended
    int reran = 0;          // forwards within this backward
    int passed = 0;         // of both, in this backward
    bool backward = false;  // it has begun and not ended
    bool stays = false;     // backward may come unannounced
    bool reduced = false;   // in this backward, and no gradient came since
    bool all_came = false;  // in this backward
  };
  void begin_iteration();
  void gather(Group group, Actions& actions);
  void note_updated(Actions& actions);
  void wait_gathered(Group group, Actions& actions);
  void make_whole(Group group, Actions& actions);
  void leave(Do how, Group group, Actions& actions);
  void free(Group group, Actions& actions);
  bool is_used(const One& one) const;
  void free_if_unused(Group group, Actions& actions);
  void reduce(Group group, Actions& actions);
  void wait_reduced(Group group, Actions& actions);
  void look_ahead(const std::vector<Group>& order, std::size_t place, int direction, Actions& actions);
  void look_back_from(Group group, Actions& actions);

  std::vector<One> groups_;
  int ahead_;
  std::int64_t ahead_bytes_;
  Reduce when_;
  std::size_t most_reducing_;
  int coming_ = 0;  // groups, and their bytes
  std::int64_t coming_bytes_ = 0;
  Event last_left_ = kNoEvent;  // the last of the computation's that gathers wait for
  int holders_ = 0;
  bool backward_ = false;
  bool sync_ = true;
  bool records_ = false;           // the whole model runs, with gradients
  bool backward_ended_ = true;     // since the last forward with gradients
  std::vector<Group> order_;       // of the forwards in this iteration, as they began
  std::vector<Group> last_order_;  // of the iteration before
  std::size_t next_ = 0;           // where in it the next forward is expected
  Group next_reduced_ = 0;         // in_order_
  std::vector<Group> reducing_;    // on their way, in the order in which they began
};

}  // namespace dtrain
