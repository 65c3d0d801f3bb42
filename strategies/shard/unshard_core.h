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
  struct Facts {
    bool resharded = true;  // after forward; else the group stays whole until its backward is done
    bool trains = true;     // it has a parameter that needs a gradient
  };
  enum class Do : std::uint8_t {
    gather,       // begin to make the group whole
    wait,         // until it is: the program is about to use it
    free,         // it is sharded from now on
    reduce,       // begin to reduce its gradients
    wait_reduced  // until they are
  };
  struct Action {
    Do what;
    Group group;
    friend bool operator==(const Action&, const Action&) = default;
  };
  using Actions = std::vector<Action>;

  // `ahead`: so many groups may be whole, or on the way, before the program comes to them.
  UnshardCore(std::vector<Facts> groups, int ahead);

  // A unit is about to run, or has run. Units may lie in each other, and one may run several times. `learns`: gradients
  // are enabled. before_backward() comes before backward needs the group again; if that cannot be, it `stays` whole.
  Actions before_forward(Group group, bool learns);
  Actions after_forward(Group group, bool learns, bool stays = false);
  // Backward is at the outputs of a unit, or has passed its inputs.
  Actions before_backward(Group group);
  Actions after_backward(Group group);
  // The whole backward is done. All groups that took part in a forward are reduced then, and sharded.
  Actions end_backward();
  // A forward or backward ended with an exception, or a graph was thrown away: all groups are sharded.
  Actions give_up();
  // The program wants to look at all parameters, or is done with it.
  Actions gather_all();
  Actions free_all() { return give_up(); }

 private:
  enum class State : std::uint8_t { sharded, coming, whole };
  struct One {
    Facts facts;
    State state = State::sharded;
    int running = 0;        // forwards that have begun and not ended
    int expected = 0;       // forwards whose backward may come
    bool backward = false;  // it has begun and not ended
    bool touched = false;   // took part in a forward since the last backward ended
    bool reduced = false;   // in this backward
  };
  void gather(Group group, Actions& actions);
  void make_whole(Group group, Actions& actions);
  void free(Group group, Actions& actions);
  void reduce(Group group, Actions& actions);
  void look_ahead(const std::vector<Group>& order, std::size_t place, int direction, Actions& actions);
  int waiting_to_be_used() const;

  std::vector<One> groups_;
  int ahead_;
  std::vector<Group> order_;       // of the forwards with gradients in this iteration, as they began
  std::vector<Group> last_order_;  // of the iteration before
  std::size_t next_ = 0;           // where in it the next forward is expected
};

}  // namespace dtrain
