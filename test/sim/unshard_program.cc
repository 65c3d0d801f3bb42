#include "test/sim/unshard_program.h"

#include <algorithm>
#include <utility>

namespace dtrain::sim {
namespace {

using Return = UnshardCore::Return;

struct Failure {};

UnitCall random_call(std::mt19937_64& random, std::size_t groups, int depth) {
  UnitCall call{random() % groups, random() % 6 == 0, random() % 10 != 0, random() % 8 != 0};
  for (std::uint64_t i = depth > 0 ? random() % 3 : 0; i > 0; --i)
    call.calls.push_back(random_call(random, groups, depth - 1));
  return call;
}

// Group 0 is what belongs to no unit. Its gradients may come until the end.
UnitCall random_model(std::mt19937_64& random, std::size_t groups) {
  UnitCall model{.passed = false};
  for (std::size_t g = 1; g < groups; ++g) {
    model.calls.push_back(random_call(random, groups, random() % 3 == 0 ? 2 : 0));
    model.calls.back().group = g;
  }
  if (random() % 4 == 0) model.calls.push_back(random_call(random, groups, 1));  // used twice
  return model;
}

UnitCall without_some(UnitCall model, std::mt19937_64& random) {
  std::erase_if(model.calls, [&](const UnitCall&) { return random() % 4 == 0; });
  return model;
}

// One rank in one program.
class Run {
 public:
  Run(const Program& program, UnshardRank& rank, std::size_t groups, std::mt19937_64& own)
      : program_(program), rank_(rank), core_(rank.core()), groups_(groups), own_(own) {}

  void step(const ProgramStep& step) {
    if (step.forward_fails >= 0) attempt(step.forward_fails, [&] { whole_forward(step.model, true); });
    if (step.backward_fails >= 0) {
      whole_forward(step.model, true);
      attempt(step.backward_fails, [&] { backward(step.model, true); });
      in_backward_ = false;
    }
    for (unsigned micro = 0; micro < step.micro_batches; ++micro) {
      for (unsigned f = 0; f < step.forwards; ++f) whole_forward(step.model, true);
      if (step.evaluates) whole_forward(step.model, false);
      if (step.looks) look(step.model);
      const bool sync = micro + 1 == step.micro_batches;
      begin_backward(sync);
      for (unsigned f = 0; f < step.forwards; ++f) backward(step.model, sync);
      end_backward(sync);
    }
    if (step.abandoned) whole_forward(step.model, true);
    update();
  }
  void step_in_buckets(const ProgramStep& step) {
    for (unsigned micro = 0; micro < step.micro_batches; ++micro) {
      const bool sync = micro + 1 == step.micro_batches;
      begin_backward(sync);
      std::vector<std::size_t> order;
      for (std::size_t g = 0; g < groups_; ++g) order.push_back(g);
      std::shuffle(order.begin(), order.end(), own_);
      std::vector<std::size_t> late = step.late;
      std::shuffle(late.begin(), late.end(), own_);
      order.insert(order.end(), late.begin(), late.end());
      for (const std::size_t g : order) {
        rank_.gradient(g);
        rank_.carry_out(core_.gradient_came(g, true));
      }
      end_backward(sync);
    }
    update();
  }
  void end() {
    if (!program_.in_units) return;
    rank_.carry_out(core_.free_all());
    rank_.require_free();
  }

 private:
  template <class Act>
  void attempt(int units, const Act& act) {
    until_failure_ = units;
    try {
      act();
    } catch (const Failure&) {
    }
    until_failure_ = -1;
  }
  void may_fail() {
    if (until_failure_ >= 0 && until_failure_-- == 0) throw Failure{};
  }

  void heed_failure() {
    if (!in_backward_) rank_.carry_out(core_.backward_failed());
  }
  void whole_forward(const UnitCall& model, bool learns) {
    heed_failure();
    core_.begin_forward(learns);
    try {
      forward(model, learns);
    } catch (const Failure&) {
      rank_.carry_out(core_.free_all());
      throw;
    }
  }
  void forward(const UnitCall& call, bool learns) {
    learns &= !call.recomputed;
    try {
      heed_failure();
      rank_.carry_out(core_.before_forward(call.group, learns));
      rank_.use(call.group);
      for (const UnitCall& each : call.calls) {
        forward(each, learns);
        rank_.use(call.group);
      }
      may_fail();
    } catch (const Failure&) {
      rank_.carry_out(core_.forward_failed(call.group));
      throw;
    }
    Return back = call.recomputed ? Return::by_rerun : Return::never;
    if (learns) back = call.known ? Return::announced : Return::unannounced;
    rank_.carry_out(core_.after_forward(call.group, back));
  }
  void look(const UnitCall& model) {
    rank_.hold(true);
    rank_.carry_out(core_.hold());
    for (std::size_t g = 0; g < groups_; ++g) rank_.use(g);
    whole_forward(model, false);
    rank_.carry_out(core_.release());
    rank_.hold(false);
  }

  void begin_backward(bool sync) {
    in_backward_ = true;
    core_.begin_backward(sync);
  }
  void backward(const UnitCall& model, bool sync) {
    if (!in_backward_) begin_backward(sync);
    back_through(model);
  }
  void back_through(UnitCall call) {
    if (std::exchange(call.recomputed, false)) forward(call, true);
    if (call.known) rank_.carry_out(core_.before_backward(call.group));
    rank_.use(call.group);
    for (auto each = call.calls.rbegin(); each != call.calls.rend(); ++each) {
      back_through(*each);
      rank_.use(call.group);
    }
    may_fail();
    rank_.gradient(call.group);
    rank_.carry_out(core_.gradient_came(call.group, false));
    if (call.passed) rank_.carry_out(core_.after_backward(call.group));
  }
  void end_backward(bool sync) {
    rank_.carry_out(core_.end_backward());
    in_backward_ = false;
    if (sync) rank_.require_reduced();
  }
  void update() {
    heed_failure();
    rank_.update();
  }

  const Program& program_;
  UnshardRank& rank_;
  UnshardCore& core_;
  std::size_t groups_;
  std::mt19937_64& own_;
  bool in_backward_ = false;
  int until_failure_ = -1;
};

}  // namespace

Program random_program(std::mt19937_64& random, std::size_t groups, bool in_units) {
  Program program{{}, in_units};
  UnitCall model = random_model(random, groups);
  for (std::uint64_t i = 3 + random() % 3; i > 0; --i) {
    if (random() % 8 == 0) model = random_model(random, groups);
    ProgramStep step{.model = random() % 3 == 0 ? without_some(model, random) : model};
    step.micro_batches = random() % 3 == 0 ? 2 : 1;
    step.forwards = random() % 4 == 0 ? 2 : 1;
    step.evaluates = random() % 4 == 0;
    step.looks = random() % 6 == 0;
    step.abandoned = random() % 6 == 0;
    if (random() % 5 == 0) step.forward_fails = static_cast<int>(random() % groups);
    if (random() % 5 == 0) step.backward_fails = static_cast<int>(random() % groups);
    for (std::size_t g = 0; g < groups; ++g)
      if (random() % 6 == 0) step.late.push_back(g);
    program.steps.push_back(std::move(step));
  }
  return program;
}

void run_program(const Program& program, UnshardRank& rank, std::size_t groups, std::mt19937_64& own) {
  Run run(program, rank, groups, own);
  for (const ProgramStep& step : program.steps) {
    if (program.in_units) {
      run.step(step);
    } else {
      run.step_in_buckets(step);
    }
  }
  run.end();
}

}  // namespace dtrain::sim
