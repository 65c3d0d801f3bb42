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

// Carries actions out, and knows what must never happen.
class Checker {
 public:
  Checker(std::size_t groups, int ahead) : whole_(groups), gathering_(groups), reducing_(groups), ahead_(ahead) {}

  void carry_out(const Actions& actions) {
    for (const auto& [what, group] : actions) {
      switch (what) {
        case Do::gather:
          CHECK_FALSE(whole_[group]);
          CHECK_FALSE(gathering_[group]);
          gathering_[group] = true;
          calls_.push_back({what, group});
          break;
        case Do::wait:
          CHECK(gathering_[group]);
          gathering_[group] = false;
          whole_[group] = true;
          break;
        case Do::free:
          CHECK(whole_[group]);
          CHECK(in_use_.end() == std::find(in_use_.begin(), in_use_.end(), group));
          whole_[group] = false;
          break;
        case Do::reduce:
          reducing_[group] = true;
          reduced_.push_back(group);
          calls_.push_back({what, group});
          break;
        case Do::wait_reduced:
          CHECK(reducing_[group]);
          reducing_[group] = false;
          break;
      }
      CHECK(std::count(gathering_.begin(), gathering_.end(), true) <= ahead_ + 1);
    }
  }
  void use(std::size_t group) { CHECK(whole_[group]); }
  void begin_use(std::size_t group) {
    use(group);
    in_use_.push_back(group);
  }
  void end_use() { in_use_.pop_back(); }
  bool anything_whole() const {
    return std::count(whole_.begin(), whole_.end(), true) + std::count(gathering_.begin(), gathering_.end(), true) > 0;
  }
  bool anything_reducing() const { return std::count(reducing_.begin(), reducing_.end(), true) > 0; }
  std::vector<std::size_t> take_reduced() { return std::exchange(reduced_, {}); }
  // The collectives, in their order: they must be the same on all ranks.
  const Actions& calls() const { return calls_; }

 private:
  std::vector<bool> whole_, gathering_, reducing_;
  int ahead_;
  std::vector<std::size_t> in_use_, reduced_;
  Actions calls_;
};

// A program: which units run, one within the other. A unit's own computation comes before and after what it calls.
struct Call {
  std::size_t group;
  std::vector<Call> calls{};
};

void forward(UnshardCore& core, Checker& checker, const Call& call, bool learns) {
  checker.carry_out(core.before_forward(call.group, learns));
  checker.begin_use(call.group);
  for (const Call& each : call.calls) {
    forward(core, checker, each, learns);
    checker.use(call.group);
  }
  checker.end_use();
  checker.carry_out(core.after_forward(call.group, learns));
}

// `passes`: whether backward comes out of a unit's inputs; the inputs of the first may need no gradient.
void backward(UnshardCore& core, Checker& checker, const Call& call, const std::function<bool()>& passes) {
  checker.carry_out(core.before_backward(call.group));
  checker.begin_use(call.group);
  for (auto each = call.calls.rbegin(); each != call.calls.rend(); ++each) {
    backward(core, checker, *each, passes);
    checker.use(call.group);
  }
  checker.end_use();
  if (passes()) checker.carry_out(core.after_backward(call.group));
}

}  // namespace

TEST_CASE("a row of units: each is gathered twice, one ahead, and reduced once") {
  UnshardCore core({{}, {}, {}}, 1);
  Checker checker(3, 1);
  const auto all = [&](Actions actions) {
    checker.carry_out(actions);
    return actions;
  };
  for (std::size_t g = 0; g < 3; ++g) {
    CHECK(all(core.before_forward(g, true)) == Actions{{Do::gather, g}, {Do::wait, g}});
    CHECK(all(core.after_forward(g, true)) == Actions{{Do::free, g}});
  }
  CHECK(all(core.before_backward(2)) == Actions{{Do::gather, 2}, {Do::wait, 2}, {Do::gather, 1}});
  CHECK(all(core.after_backward(2)) == Actions{{Do::reduce, 2}, {Do::free, 2}});
  CHECK(all(core.before_backward(1)) == Actions{{Do::wait, 1}, {Do::gather, 0}});
  CHECK(all(core.after_backward(1)) == Actions{{Do::reduce, 1}, {Do::free, 1}});
  CHECK(all(core.before_backward(0)) == Actions{{Do::wait, 0}});
  CHECK(all(core.end_backward()) ==
        Actions{{Do::reduce, 0}, {Do::free, 0}, {Do::wait_reduced, 0}, {Do::wait_reduced, 1}, {Do::wait_reduced, 2}});
  // The order is known from now on.
  CHECK(all(core.before_forward(0, true)) == Actions{{Do::gather, 0}, {Do::wait, 0}, {Do::gather, 1}});
  CHECK(all(core.after_forward(0, true)) == Actions{{Do::free, 0}});
  CHECK(all(core.before_forward(1, true)) == Actions{{Do::wait, 1}, {Do::gather, 2}});
}

TEST_CASE("a group that is not resharded is gathered once, and one without gradients is not reduced") {
  UnshardCore core({{.resharded = false}, {.trains = false}}, 0);
  CHECK(core.before_forward(0, true) == Actions{{Do::gather, 0}, {Do::wait, 0}});
  CHECK(core.after_forward(0, true).empty());
  CHECK(core.before_forward(1, false) == Actions{{Do::gather, 1}, {Do::wait, 1}});
  CHECK(core.after_forward(1, false) == Actions{{Do::free, 1}});
  CHECK(core.before_backward(0).empty());
  CHECK(core.after_backward(0) == Actions{{Do::reduce, 0}, {Do::free, 0}});
  CHECK(core.end_backward() == Actions{{Do::wait_reduced, 0}});
}

TEST_CASE("an evaluation keeps nothing, and an exception frees everything") {
  UnshardCore core({{}, {.resharded = false}}, 1);
  CHECK(core.before_forward(1, false) == Actions{{Do::gather, 1}, {Do::wait, 1}});
  CHECK(core.after_forward(1, false) == Actions{{Do::free, 1}});
  core.before_forward(1, true);
  core.before_forward(0, true);
  CHECK(core.give_up() == Actions{{Do::free, 0}, {Do::free, 1}});
  CHECK(core.end_backward().empty());
}

TEST_CASE("random programs never use what is not there, and ranks make the same collectives") {
  for (unsigned seed = 0; seed < 500; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](unsigned high) { return random() % high; };
    const std::size_t groups = 1 + below(6);
    const int ahead = static_cast<int>(below(4));
    std::vector<UnshardCore::Facts> facts;
    for (std::size_t g = 0; g < groups; ++g) facts.push_back({below(3) != 0, true});
    std::function<Call(unsigned)> program = [&](unsigned depth) {
      Call call{below(static_cast<unsigned>(groups))};
      for (unsigned i = depth > 0 ? below(4) : 0; i > 0; --i) call.calls.push_back(program(depth - 1));
      return call;
    };
    // Two ranks, which differ in how far backward comes.
    UnshardCore cores[] = {{facts, ahead}, {facts, ahead}};
    Checker checkers[] = {{groups, ahead}, {groups, ahead}};
    Call call = program(3);
    for (int step = 0; step < 4; ++step) {
      if (below(4) == 0) call = program(3);
      const bool evaluates = below(3) == 0;
      const unsigned forwards = 1 + below(2);
      for (int rank = 0; rank < 2; ++rank) {
        INFO("seed " << seed << " step " << step << " rank " << rank);
        UnshardCore& core = cores[rank];
        Checker& checker = checkers[rank];
        if (evaluates) forward(core, checker, call, false);
        for (unsigned f = 0; f < forwards; ++f) forward(core, checker, call, true);
        unsigned passed = 0;
        for (unsigned f = 0; f < forwards; ++f)
          backward(core, checker, call, [&] { return (seed + passed++) % 5 != 0; });
        checker.carry_out(core.end_backward());
        CHECK_FALSE(checker.anything_whole());
        CHECK_FALSE(checker.anything_reducing());
        const auto reduced = checker.take_reduced();
        std::function<void(const Call&)> expect = [&](const Call& each) {
          CHECK(std::find(reduced.begin(), reduced.end(), each.group) != reduced.end());
          for (const Call& inner : each.calls) expect(inner);
        };
        expect(call);
      }
    }
    CHECK(checkers[0].calls() == checkers[1].calls());
  }
}
