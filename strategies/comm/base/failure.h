#pragma once
// The first failure of a group, as the one word that the ranks share, and as the error they throw. Pure.
#include <cstdint>
#include <string>

#include "dtrain/errors.h"

namespace dtrain {

struct Failure {
  FailureKind kind;
  int rank;  // who caused it, below 2^24
};

// Never 0, which means "no failure".
std::uint32_t encode(const Failure& failure);
Failure decode_failure(std::uint32_t word);

// What the rank did, in a few words: "left the job".
const char* short_phrase(FailureKind kind);

// The line the user reads. `during` is the collective, `pid` the process of failure.rank, `detail` what more is known.
CollectiveError describe(const Failure& failure, int pid, const std::string& during, const std::string& detail);

}  // namespace dtrain
