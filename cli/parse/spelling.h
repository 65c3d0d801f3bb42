#pragma once
// The step before CLI11: argparse's spellings, which CLI11 does not know, written out for it. Pure.
//  - A long name may be shortened as long as it is unambiguous, and '_' is as good as '-'.
//  - A value in the same word gets a word of its own: CLI11 reads `--role= x` as x and `-t=3` as "=3".
//  - A word that looks like a flag is no value. CLI11 would take it; the words end before it, and CLI11 misses the
//    value. As argparse has it, "-1", "-.5", "-" and what has a blank in it and is no flag ("- x") do not look like
//    one.
//  - From the first word that is no flag, and from `--`, everything stays as it is.
#include <span>
#include <string>
#include <vector>

#include "cli/table/flags.h"
#include "rendezvous/base/result.h"

namespace dtrain::cli {

struct TypedFlag {
  FlagId id;
  std::string typed;        // as the user wrote it, without the value: "--nproc_per_node", "-t"
  std::string chosen = {};  // what a switch was given after '=', one of its choices: "all"; else empty
};

struct Spelled {
  std::vector<std::string> words;
  std::vector<TypedFlag> flags;  // in the order of the words
};

// Errors are usage errors of one line: a flag that is unknown or ambiguous, or a switch with a value.
Result<Spelled> spell_out(std::span<const std::string> words, CalledAs called = CalledAs::dtrain);

}  // namespace dtrain::cli
