#pragma once
// One history: ranks of a group make collectives and messages in an order that a seed chooses, with results that are
// checked, until one of them is killed or stopped wherever it happens to be; then what the others say.
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "test/unit/strategies/ranks.h"

namespace dtrain::test {

struct Harm {
  std::uint64_t seed = 0;
  std::string letters;  // as in fake_hosts.h: a host for each rank
  int victim = 0;
  bool stops = false;               // SIGSTOP; else SIGKILL
  std::chrono::microseconds after;  // the group is formed

  std::string text() const;  // what a message about it begins with
};

Harm harm_of(std::uint64_t seed);

struct Harmed {
  std::string wrong;        // empty: every other rank has named the victim, in time
  double seconds = 0;       // until the last of them had
  std::uint64_t calls = 0;  // that were made before, by the rank that made most
};

Harmed carry_out(const Harm& harm);

}  // namespace dtrain::test
