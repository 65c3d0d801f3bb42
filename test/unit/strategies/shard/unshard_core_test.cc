// When groups are gathered, freed and reduced: cases, and random programs under a checker.
#include "strategies/shard/unshard_core.h"

#include <algorithm>
#include <functional>
#include <random>

#include "test/support/catch.h"

using namespace dtrain;
using Do = UnshardCore::Do;
using Actions = UnshardCore::Actions;

namespace {

using Return = UnshardCore::Return;
using Between = UnshardCore::Between;
using Stream = UnshardCore::Stream;

// What is done with which group, without streams and events; those that only record are left out.
struct Step {
  Do what;
  std::size_t group;
  friend bool operator==(const Step&, const Step&) = default;
};
using Steps = std::vector<Step>;

Steps steps(const Actions& actions) {
  Steps found;
  for (const auto& each : actions)
    if (each.what != Do::updated && each.what != Do::filled && each.what != Do::average)
      found.push_back({each.what, each.group});
  return found;
}

// Carries actions out, and knows what must never happen.
class Checker {
 public:
  Checker(std::size_t groups, int ahead)
      : whole_(groups), near_(groups), gathering_(groups), reducing_(groups), unreduced_(groups), ahead_(ahead) {}

  Steps carry_out(const Actions& actions) {
    for (const auto& [what, group] : steps(actions)) {
      switch (what) {
        case Do::gather:
          CHECK_FALSE(whole_[group]);
          CHECK_FALSE(gathering_[group]);
          gathering_[group] = true;
          near_[group] = false;
          calls_.push_back({what, group});
          break;
        case Do::wait:
          CHECK(gathering_[group]);
          gathering_[group] = false;
          whole_[group] = true;
          break;
        case Do::free:
          CHECK((whole_[group] || near_[group]));
          CHECK(in_use_.end() == std::find(in_use_.begin(), in_use_.end(), group));
          whole_[group] = near_[group] = false;
          break;
        case Do::share_near:
          CHECK(whole_[group]);
          CHECK(in_use_.end() == std::find(in_use_.begin(), in_use_.end(), group));
          whole_[group] = false;
          near_[group] = true;
          calls_.push_back({what, group});
          break;
        case Do::reduce:
          CHECK_FALSE(reducing_[group]);
          reducing_[group] = true;
          CHECK(std::count(reducing_.begin(), reducing_.end(), true) == 1);
          unreduced_[group] = false;
          calls_.push_back({what, group});
          break;
        case Do::wait_reduced:
          CHECK(reducing_[group]);
          reducing_[group] = false;
          break;
        default:
          break;
      }
      if (!holds) CHECK(std::count(gathering_.begin(), gathering_.end(), true) <= ahead_ + 1);
    }
    return steps(actions);
  }
  void use(std::size_t group) { CHECK(whole_[group]); }
  void begin_use(std::size_t group) {
    use(group);
    in_use_.push_back(group);
  }
  void end_use() { in_use_.pop_back(); }
  void throw_out() { in_use_.clear(); }
  void gradient(std::size_t group) { unreduced_[group] = true; }
  bool anything_whole() const {
    const auto any = [](const std::vector<bool>& of) { return std::count(of.begin(), of.end(), true) > 0; };
    return any(whole_) || any(near_) || any(gathering_);
  }
  bool anything_reducing() const { return std::count(reducing_.begin(), reducing_.end(), true) > 0; }
  bool anything_unreduced() const { return std::count(unreduced_.begin(), unreduced_.end(), true) > 0; }
  // The collectives, in their order: they must be the same on all ranks.
  const Steps& calls() const { return calls_; }
  bool holds = false;

 private:
  std::vector<bool> whole_, near_, gathering_, reducing_, unreduced_;
  int ahead_;
  std::vector<std::size_t> in_use_;
  Steps calls_;
};

// A program: which units run, one within the other. A unit's own computation comes before and after what it calls.
struct Call {
  std::size_t group;
  bool recomputed = false;  // its forward runs without gradients, and again within backward
  bool known = true;        // backward to it is announced
  std::vector<Call> calls{};
};

Return return_of(const Call& call, bool learns) {
  if (!learns) return call.recomputed ? Return::by_rerun : Return::never;
  return call.known ? Return::announced : Return::unannounced;
}

void forward(UnshardCore& core, Checker& checker, const Call& call, bool learns) {
  learns &= !call.recomputed;
  checker.carry_out(core.before_forward(call.group, learns));
  checker.begin_use(call.group);
  for (const Call& each : call.calls) {
    forward(core, checker, each, learns);
    checker.use(call.group);
  }
  checker.end_use();
  checker.carry_out(core.after_forward(call.group, return_of(call, learns)));
}

// `passes`: whether backward comes out of a unit's inputs; the inputs of the first may need no gradient.
void backward(UnshardCore& core, Checker& checker, Call call, const std::function<bool()>& passes) {
  if (std::exchange(call.recomputed, false)) forward(core, checker, call, true);
  if (call.known) checker.carry_out(core.before_backward(call.group));
  checker.begin_use(call.group);
  for (auto each = call.calls.rbegin(); each != call.calls.rend(); ++each) {
    backward(core, checker, *each, passes);
    checker.use(call.group);
  }
  checker.gradient(call.group);
  checker.carry_out(core.gradient_came(call.group, false));
  checker.end_use();
  if (passes()) checker.carry_out(core.after_backward(call.group));
}

}  // namespace

TEST_CASE("a row of units: each is gathered twice, one ahead, and reduced once") {
  UnshardCore core({{}, {}, {}}, 1);
  Checker checker(3, 1);
  const auto all = [&](const Actions& actions) { return checker.carry_out(actions); };
  core.begin_forward(true);
  for (std::size_t g = 0; g < 3; ++g) {
    CHECK(all(core.before_forward(g, true)) == Steps{{Do::gather, g}, {Do::wait, g}});
    CHECK(all(core.after_forward(g, Return::announced)) == Steps{{Do::free, g}});
  }
  core.begin_backward(true);
  CHECK(all(core.before_backward(2)) == Steps{{Do::gather, 2}, {Do::wait, 2}, {Do::gather, 1}});
  CHECK(all(core.after_backward(2)) == Steps{{Do::reduce, 2}, {Do::free, 2}});
  CHECK(all(core.before_backward(1)) == Steps{{Do::wait, 1}, {Do::gather, 0}});
  // One is on its way at a time.
  CHECK(all(core.after_backward(1)) == Steps{{Do::wait_reduced, 2}, {Do::reduce, 1}, {Do::free, 1}});
  CHECK(all(core.before_backward(0)) == Steps{{Do::wait, 0}});
  CHECK(all(core.end_backward()) ==
        Steps{{Do::wait_reduced, 1}, {Do::reduce, 0}, {Do::free, 0}, {Do::wait_reduced, 0}});
  // The order is known from now on.
  core.begin_forward(true);
  CHECK(all(core.before_forward(0, true)) == Steps{{Do::gather, 0}, {Do::wait, 0}, {Do::gather, 1}});
  CHECK(all(core.after_forward(0, Return::announced)) == Steps{{Do::free, 0}});
  CHECK(all(core.before_forward(1, true)) == Steps{{Do::wait, 1}, {Do::gather, 2}});
}

TEST_CASE("a group that is not resharded is gathered once, and a frozen one is not reduced") {
  UnshardCore core({{.between = Between::whole}, {.trains = false}}, 0);
  CHECK(steps(core.before_forward(0, true)) == Steps{{Do::gather, 0}, {Do::wait, 0}});
  CHECK(core.after_forward(0, Return::announced).empty());
  CHECK(steps(core.before_forward(1, true)) == Steps{{Do::gather, 1}, {Do::wait, 1}});
  CHECK(steps(core.after_forward(1, Return::announced)) == Steps{{Do::free, 1}});
  core.begin_backward(true);
  CHECK(steps(core.before_backward(1)) ==
        Steps{{Do::gather, 1}, {Do::wait, 1}});  // to what the unit's inputs came from
  CHECK(steps(core.after_backward(1)) == Steps{{Do::free, 1}});
  CHECK(core.before_backward(0).empty());
  CHECK(steps(core.after_backward(0)) == Steps{{Do::reduce, 0}, {Do::free, 0}});
  CHECK(steps(core.end_backward()) == Steps{{Do::wait_reduced, 0}});
}

TEST_CASE("a group that few ranks share between forward and backward is gathered from them") {
  UnshardCore core({{.between = Between::near}}, 0);
  CHECK(steps(core.before_forward(0, true)) == Steps{{Do::gather, 0}, {Do::wait, 0}});
  CHECK(steps(core.after_forward(0, Return::announced)) == Steps{{Do::share_near, 0}});
  core.begin_backward(true);
  CHECK(steps(core.before_backward(0)) == Steps{{Do::gather, 0}, {Do::wait, 0}});
  CHECK(steps(core.after_backward(0)) == Steps{{Do::reduce, 0}, {Do::free, 0}});
  core.before_forward(0, true);
  core.after_forward(0, Return::announced);
  CHECK(steps(core.free_all()) == Steps{{Do::free, 0}});
}

TEST_CASE("an evaluation keeps nothing but what backward comes to unannounced") {
  UnshardCore core({{}, {.between = Between::whole}}, 1);
  CHECK(steps(core.before_forward(1, false)) == Steps{{Do::gather, 1}, {Do::wait, 1}});
  CHECK(steps(core.after_forward(1, Return::never)) == Steps{{Do::free, 1}});
  core.before_forward(0, true);
  CHECK(core.after_forward(0, Return::unannounced).empty());
  CHECK(core.before_forward(0, false).empty());
  CHECK(core.after_forward(0, Return::never).empty());
  CHECK(steps(core.hold()) == Steps{{Do::gather, 1}, {Do::wait, 1}});
  CHECK(steps(core.release()) == Steps{{Do::free, 1}});
  core.begin_backward(true);
  CHECK(steps(core.end_backward()) ==
        Steps{{Do::reduce, 1}, {Do::wait_reduced, 1}, {Do::reduce, 0}, {Do::free, 0}, {Do::wait_reduced, 0}});
}

TEST_CASE("a forward that fails frees its unit and not those around it") {
  UnshardCore core({{}, {}}, 0);
  core.before_forward(0, true);
  core.before_forward(1, true);
  CHECK(steps(core.forward_failed(1)) == Steps{{Do::free, 1}});
  CHECK(core.forward_failed(1).empty());  // it had not begun
  CHECK(steps(core.after_forward(0, Return::announced)) == Steps{{Do::free, 0}});
  core.before_forward(0, true);
  core.before_forward(1, true);
  CHECK(steps(core.free_all()) == Steps{{Do::free, 0}, {Do::free, 1}});
}

TEST_CASE("buckets are reduced in their order, and once more if a gradient comes later") {
  UnshardCore core({{}, {.trains = false}, {}, {}}, 0, UnshardCore::Reduce::in_order, UnshardCore::kAnyBytes, 2);
  core.begin_backward(true);
  CHECK(core.gradient_came(2, true).empty());
  CHECK(core.gradient_came(0, false).empty());
  CHECK(steps(core.gradient_came(0, true)) == Steps{{Do::reduce, 0}, {Do::reduce, 2}});
  CHECK(core.gradient_came(0, true).empty());
  CHECK(steps(core.end_backward()) == Steps{{Do::wait_reduced, 0},
                                            {Do::reduce, 0},
                                            {Do::wait_reduced, 2},
                                            {Do::reduce, 3},
                                            {Do::wait_reduced, 0},
                                            {Do::wait_reduced, 3}});
  core.begin_backward(false);
  CHECK(core.gradient_came(0, true).empty());
  CHECK(core.end_backward().empty());
  // What was not reduced then is reduced now, and the backward before may have failed.
  core.begin_backward(true);
  core.gradient_came(0, true);
  core.begin_backward(true);
  CHECK(steps(core.end_backward()).size() == 7);
}

TEST_CASE("so many buckets are on their way as there are rows for") {
  UnshardCore core({{}, {}, {}}, 0, UnshardCore::Reduce::in_order);
  core.begin_backward(true);
  CHECK(steps(core.gradient_came(0, true)) == Steps{{Do::reduce, 0}});
  CHECK(steps(core.gradient_came(1, true)) == Steps{{Do::wait_reduced, 0}, {Do::reduce, 1}});
  CHECK(steps(core.end_backward()) == Steps{{Do::wait_reduced, 1}, {Do::reduce, 2}, {Do::wait_reduced, 2}});
}

TEST_CASE("all groups are reduced as backward ends, if they are to be") {
  UnshardCore core({{}, {}, {}}, 0, UnshardCore::Reduce::at_end, UnshardCore::kAnyBytes, 2);
  core.before_forward(1, true);
  core.after_forward(1, Return::announced);
  core.begin_backward(true);
  core.before_backward(1);
  CHECK(core.gradient_came(1, true).empty());
  CHECK(steps(core.after_backward(1)) == Steps{{Do::free, 1}});
  CHECK(steps(core.end_backward()) == Steps{{Do::reduce, 2},
                                            {Do::reduce, 1},
                                            {Do::wait_reduced, 2},
                                            {Do::reduce, 0},
                                            {Do::wait_reduced, 1},
                                            {Do::wait_reduced, 0}});
}

TEST_CASE("a forward after a backward that failed is the first of a new iteration") {
  UnshardCore core({{}, {}, {}}, 1);
  CHECK(core.backward_failed().empty());
  const auto forward = [&] {
    core.begin_forward(true);
    for (std::size_t g = 0; g < 3; ++g) {
      core.before_forward(g, true);
      core.after_forward(g, g == 0 ? Return::unannounced : Return::announced);
    }
  };
  forward();
  core.begin_backward(true);
  core.before_backward(2);
  core.after_backward(2);
  CHECK(steps(core.before_backward(1)) == Steps{{Do::wait, 1}});
  CHECK(steps(core.backward_failed()) == Steps{{Do::free, 0}, {Do::free, 1}, {Do::wait_reduced, 2}});
  CHECK(core.backward_failed().empty());
  core.begin_forward(true);
  CHECK(steps(core.before_forward(0, true)) == Steps{{Do::gather, 0}, {Do::wait, 0}, {Do::gather, 1}});
  CHECK(steps(core.after_forward(0, Return::announced)) == Steps{{Do::free, 0}});
}

TEST_CASE("a unit whose forward runs again is freed in each backward, and stays in between if groups stay") {
  for (const Between between : {Between::sharded, Between::whole}) {
    UnshardCore core({{.between = between}}, 0);
    const bool stays = between == Between::whole;
    core.begin_forward(true);
    core.before_forward(0, false);
    CHECK(steps(core.after_forward(0, Return::by_rerun)) == (stays ? Steps{} : Steps{{Do::free, 0}}));
    for (int backward = 0; backward < 3; ++backward) {
      core.begin_backward(true);
      const bool there = stays && backward == 0;
      CHECK(steps(core.before_forward(0, true)) == (there ? Steps{} : Steps{{Do::gather, 0}, {Do::wait, 0}}));
      CHECK(core.after_forward(0, Return::announced).empty());
      CHECK(steps(core.after_backward(0)) == Steps{{Do::reduce, 0}, {Do::free, 0}});
      CHECK(steps(core.end_backward()) == Steps{{Do::wait_reduced, 0}});
    }
  }
}

TEST_CASE("an action has its stream, and what it waits for has been recorded") {
  UnshardCore core({{}, {}}, 1);
  constexpr auto kNone = UnshardCore::kNoEvent;
  // Each group's: gathered, left, filled, reduced. At last: updated.
  REQUIRE(core.events() == 9);
  core.begin_forward(true);
  CHECK(core.before_forward(0, true) == Actions{{Do::updated, Stream::compute, kNone, 8, 0},
                                                {Do::gather, Stream::gather, 8, 0, 0},
                                                {Do::wait, Stream::compute, 0, kNone, 0}});
  CHECK(core.after_forward(0, Return::announced) == Actions{{Do::free, Stream::compute, kNone, 1, 0}});
  CHECK(core.before_forward(1, true) ==
        Actions{{Do::gather, Stream::gather, 1, 4, 1}, {Do::wait, Stream::compute, 4, kNone, 1}});
  core.after_forward(1, Return::announced);
  core.begin_backward(true);
  // The one that is gathered ahead may take the memory of what was left last.
  CHECK(core.before_backward(1) == Actions{{Do::gather, Stream::gather, 5, 4, 1},
                                           {Do::wait, Stream::compute, 4, kNone, 1},
                                           {Do::gather, Stream::gather, 5, 0, 0}});
  CHECK(core.after_backward(1) == Actions{{Do::filled, Stream::compute, kNone, 6, 1},
                                          {Do::reduce, Stream::reduce, 6, kNone, 1},
                                          {Do::free, Stream::compute, kNone, 5, 1}});
  core.before_backward(0);
  CHECK(core.after_backward(0) == Actions{{Do::average, Stream::reduce, kNone, 7, 1},
                                          {Do::wait_reduced, Stream::compute, 7, kNone, 1},
                                          {Do::filled, Stream::compute, kNone, 2, 0},
                                          {Do::reduce, Stream::reduce, 2, kNone, 0},
                                          {Do::free, Stream::compute, kNone, 1, 0}});
  CHECK(core.end_backward() ==
        Actions{{Do::average, Stream::reduce, kNone, 3, 0}, {Do::wait_reduced, Stream::compute, 3, kNone, 0}});
  CHECK(core.updated() == Actions{{Do::updated, Stream::compute, kNone, 8, 0}});
  core.begin_forward(true);
  CHECK(core.before_forward(0, true).front() == UnshardCore::Action{Do::gather, Stream::gather, 8, 0, 0});
}

TEST_CASE("what is gathered ahead has no more bytes than it may have") {
  const auto gathered_first = [](std::int64_t bytes) {
    UnshardCore core({{.bytes = 5}, {.bytes = 4}, {.bytes = 6}, {.bytes = 1}}, 3, UnshardCore::Reduce::passed, bytes);
    const auto forward = [&](const auto& look) {
      core.begin_forward(true);
      for (std::size_t g = 0; g < 4; ++g) {
        look(g, steps(core.before_forward(g, true)));
        core.after_forward(g, Return::announced);
      }
    };
    forward([](std::size_t, const Steps&) {});
    core.begin_backward(false);
    core.end_backward();
    std::vector<Steps> found;
    forward([&](std::size_t, const Steps& its) { found.push_back(its); });
    return found;
  };
  CHECK(gathered_first(11)[0] ==
        Steps{{Do::gather, 0}, {Do::wait, 0}, {Do::gather, 1}, {Do::gather, 2}, {Do::gather, 3}});
  CHECK(gathered_first(10)[0] == Steps{{Do::gather, 0}, {Do::wait, 0}, {Do::gather, 1}, {Do::gather, 2}});
  // The others come when there is room, and the one that is too large when the program needs it.
  const std::vector<Steps> five = gathered_first(5);
  CHECK(five[0] == Steps{{Do::gather, 0}, {Do::wait, 0}, {Do::gather, 1}});
  CHECK(five[1] == Steps{{Do::wait, 1}});
  CHECK(five[2] == Steps{{Do::gather, 2}, {Do::wait, 2}, {Do::gather, 3}});
  CHECK(gathered_first(0)[0] == Steps{{Do::gather, 0}, {Do::wait, 0}});
}

TEST_CASE("a row that is reduced is waited for before it is written, and what began before it first") {
  UnshardCore core({{}, {}, {}}, 0, UnshardCore::Reduce::in_order, UnshardCore::kAnyBytes, 2);
  core.begin_backward(true);
  CHECK(core.before_gradient(0).empty());
  core.gradient_came(0, true);
  core.gradient_came(1, true);
  CHECK(core.before_gradient(2).empty());
  CHECK(steps(core.before_gradient(1)) == Steps{{Do::wait_reduced, 0}, {Do::wait_reduced, 1}});
  CHECK(core.before_gradient(0).empty());
}

TEST_CASE("random programs never use what is not there, and ranks make the same collectives") {
  for (unsigned seed = 0; seed < 500; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](unsigned high) { return random() % high; };
    const std::size_t groups = 1 + below(6);
    const int ahead = static_cast<int>(below(4));
    std::vector<UnshardCore::Facts> facts;
    for (std::size_t g = 0; g < groups; ++g) facts.push_back({static_cast<Between>(below(3)), true});
    std::function<Call(unsigned)> program = [&](unsigned depth) {
      Call call{below(static_cast<unsigned>(groups)), below(8) == 0, below(8) != 0};
      for (unsigned i = depth > 0 ? below(4) : 0; i > 0; --i) call.calls.push_back(program(depth - 1));
      return call;
    };
    UnshardCore cores[] = {{facts, ahead}, {facts, ahead}};
    Checker checkers[] = {{groups, ahead}, {groups, ahead}};
    Call call = program(3);
    for (int step = 0; step < 6; ++step) {
      if (below(4) == 0) call = program(3);
      const bool evaluates = below(3) == 0, looks = below(4) == 0, sync = below(4) != 0, direct = below(6) == 0;
      const unsigned forwards = 1 + below(2), backwards = 1 + below(2);
      const bool fails = below(5) == 0, begins_anew = below(2) == 0;
      for (int rank = 0; rank < 2; ++rank) {
        INFO("seed " << seed << " step " << step << " rank " << rank);
        UnshardCore& core = cores[rank];
        Checker& checker = checkers[rank];
        const auto run = [&](bool learns) {
          if (!direct) core.begin_forward(learns);
          forward(core, checker, call, learns);
        };
        const auto look = [&] {
          checker.holds = true;
          checker.carry_out(core.hold());
          for (std::size_t g = 0; g < groups; ++g) checker.use(g);
          run(false);
          checker.carry_out(core.release());
          checker.holds = false;
        };
        for (unsigned f = 0; f < forwards; ++f) run(true);
        if (evaluates) run(false);
        if (looks) look();
        unsigned passed = 0;
        const auto passes = [&] { return (seed + passed++) % 5 != 0; };
        if (fails) {
          // A backward that ended with an exception on its way, and then another one.
          core.begin_backward(sync);
          if (call.known && !call.recomputed) checker.carry_out(core.before_backward(call.group));
          if (begins_anew) {
            checker.carry_out(core.backward_failed());
            CHECK_FALSE(checker.anything_whole());
            for (unsigned f = 0; f < forwards; ++f) run(true);
          }
        }
        for (unsigned b = 0; b < backwards; ++b) {
          core.begin_backward(sync);
          const unsigned graphs = b == 0 ? forwards : 1;
          // A group that is not announced stays for one backward.
          const std::function<bool(const Call&)> all_known = [&](const Call& each) {
            return each.known && std::all_of(each.calls.begin(), each.calls.end(), all_known);
          };
          if (b > 0 && !all_known(call)) continue;
          for (unsigned g = 0; g < graphs; ++g) backward(core, checker, call, passes);
          checker.carry_out(core.end_backward());
          if (sync) CHECK_FALSE(checker.anything_unreduced());
        }
        checker.carry_out(core.end_backward());
        CHECK_FALSE(checker.anything_whole());
        CHECK_FALSE(checker.anything_reducing());
      }
    }
    CHECK(checkers[0].calls() == checkers[1].calls());
  }
}
