#pragma once
// What a program does with a sharded model, which is the same on all ranks but for the order in which gradients come:
// units in a row and in each other, some of them more than once, some not in every step, some run again in backward;
// forwards and backwards that end with an exception, steps of several backwards, evaluations, and looks at everything.
#include <random>
#include <vector>

#include "test/sim/unshard_rank.h"

namespace dtrain::sim {

// A unit's own computation comes before and after what it calls.
struct UnitCall {
  std::size_t group = 0;
  bool recomputed = false;  // its forward runs without gradients, and again within backward
  bool known = true;        // backward to it is announced
  bool passed = true;       // backward comes out of its inputs
  std::vector<UnitCall> calls{};
};

struct ProgramStep {
  UnitCall model;
  unsigned micro_batches = 1;  // all but the last without reductions
  unsigned forwards = 1;       // of one backward
  bool evaluates = false, looks = false;
  bool abandoned = false;                       // a forward has no backward
  int forward_fails = -1, backward_fails = -1;  // in the unit that comes after so many, in an attempt before
  std::vector<std::size_t> late{};              // of zero1 and zero2: gradients that come once more, after all
};

struct Program {
  std::vector<ProgramStep> steps;
  bool in_units = true;  // false: zero1 and zero2, where gradients come in any order
};

Program random_program(std::mt19937_64& random, std::size_t groups, bool in_units);

// `own`: what differs between ranks.
void run_program(const Program& program, UnshardRank& rank, std::size_t groups, std::mt19937_64& own);

}  // namespace dtrain::sim
