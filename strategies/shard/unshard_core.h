#pragma once
// When the groups of a sharded model are gathered, freed and reduced. The engine tells the core what the program does,
// and carries out the actions that come back, in their order. All ranks run their units in the same order, so they get
// the same actions: what is decided here depends on nothing else. Pure.
//
// The order of a forward is remembered: while a group is computed with, the next one is gathered, as in Zhao et al.,
// "PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel", VLDB 2023.
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
    bool trains = true;  // it has a parameter that needs a gradient
  };
  // How backward will come to what a forward returns.
  enum class Return : std::uint8_t {
    never,
    by_rerun,    // it runs the forward again, and comes to what this one returns
    announced,   // before_backward() comes before backward needs the group again
    unannounced  // it does not: the group stays whole until a backward has ended
  };
  enum class Do : std::uint8_t {
    gather,       // begin to make the group whole
    wait,         // until it is: the program is about to use it
    free,         // it is sharded from now on
    share_near,   // the same, but among few ranks; it is gathered from those then, or freed
    reduce,       // begin to reduce its gradients
    wait_reduced  // until they are
  };
  struct Action {
    Do what;
    Group group;
    friend bool operator==(const Action&, const Action&) = default;
  };
  using Actions = std::vector<Action>;

  // When groups are reduced: each as backward has passed it, or in their order, each as soon as all gradients of it and
  // of those before it are there, or all as backward ends.
  enum class Reduce : std::uint8_t { passed, in_order, at_end };

  // `ahead`: so many groups may be whole, or on the way, before the program comes to them.
  UnshardCore(std::vector<Facts> groups, int ahead, Reduce reduce = Reduce::passed);

  // The program calls the whole model. `learns`: gradients are enabled.
  void begin_forward(bool learns);
  // A unit is about to run, or has run, or ended with an exception. Units may lie in each other, and one may run
  // several times. One that runs within backward is run again (recomputation).
  Actions before_forward(Group group, bool learns);
  Actions after_forward(Group group, Return back);
  Actions forward_failed(Group group);

  // Every backward that synchronises reduces all groups that train, whatever it came through. Which way it took may
  // differ between ranks, unless groups are reduced as it has passed them. The one before may have ended with an
  // exception.
  void begin_backward(bool sync);
  // Backward is at the outputs of a unit, or has passed its inputs.
  Actions before_backward(Group group);
  Actions after_backward(Group group);
  // `all`: no gradient of the group is missing any more.
  Actions gradient_came(Group group, bool all);
  Actions end_backward();
  // It ended with an exception, and no other one has begun. Nothing if there was none.
  Actions backward_failed();

  // All groups are whole until they are released. Calls may lie in each other.
  Actions hold();
  Actions release();
  bool is_held() const { return holders_ > 0; }
  // The parameters have new values, or a forward of the whole model ended with an exception.
  Actions free_all();

 private:
  enum class State : std::uint8_t { sharded, near, coming, whole };
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
  void make_whole(Group group, Actions& actions);
  void free(Group group, Actions& actions);
  bool is_used(const One& one) const;
  void free_if_unused(Group group, Actions& actions);
  void reduce(Group group, Actions& actions);
  void wait_reduced(Group group, Actions& actions);
  void look_ahead(const std::vector<Group>& order, std::size_t place, int direction, Actions& actions);
  void look_back_from(Group group, Actions& actions);
  int waiting_to_be_used() const;

  std::vector<One> groups_;
  int ahead_;
  Reduce when_;
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
