#pragma once
// What the user typed, taken apart but not yet judged: argparse's rules (those of torchrun), with '-' and '_' alike.
//  - `--flag value`, `--flag=value`, `-t 3`, `-t3`, `-t=3`; the last occurrence wins.
//  - A long name may be shortened as long as it is unambiguous.
//  - The first word that is no flag is the program; it and everything after it belongs to the program, verbatim.
//    `--` ends the flags as well. As torchrun a `--` right after the program is dropped if none ended the flags:
//    argparse does so, and scripts that were always started so never saw it.
// Pure: reads nothing but its arguments.
#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/table/flags.h"
#include "rendezvous/base/result.h"

namespace dtrain::cli {

// The first one that says something counts.
enum class Origin { flag, environment, file, fallback };

// The value of one flag and where it came from.
struct RawValue {
  std::string text;  // switches: "1" or "0", or what follows '=' (--help=all)
  Origin origin = Origin::fallback;
  // The flag as typed, the variable, or "job.yaml:3: backend.trainer.max_retries"; empty for a default.
  std::string where = {};
};

// The place of a command that has the name of raw rows: a recipe makes the rows that the program reads of them.
struct RawInput {
  std::string recipe;                  // its file, or "config": that of the config's data set
  bool filter = false;                 // its filters leave rows out
  std::vector<std::string> without{};  // columns that are left out
  std::vector<std::string> keep{};     // columns of the files that are not lost
  std::size_t place = 0;               // in RawOptions::command
};

// What was typed; and what a config file says where nothing else counts more (options.h).
struct RawOptions {
  std::array<std::optional<RawValue>, kFlagCount> typed;
  std::vector<std::string> command;  // the program and its arguments; empty if none was given
  // What a config file says of the data set, as JSON for dtrain-data.
  std::optional<std::string> data{};
  std::string credentials{};            // of the store of its cache (cli/config/config_credentials.h): a secret
  std::optional<RawInput> raw_input{};  // of `dtrain predict --recipe`
  bool ended = false;                   // by a `--` before the program
  bool as_torchrun = false;             // called by the name of torchrun or launch: torchrun's defaults count
  bool as_launch = false;               // called by the name of torch.distributed.launch

  CalledAs called() const {
    if (as_launch) return CalledAs::launch;
    return as_torchrun ? CalledAs::torchrun : CalledAs::dtrain;
  }
  const std::optional<RawValue>& operator[](FlagId id) const { return typed[static_cast<std::size_t>(id)]; }
  std::optional<RawValue>& operator[](FlagId id) { return typed[static_cast<std::size_t>(id)]; }
};

// Take apart the words after `dtrain run` (or after `torchrun`). Errors are usage errors of one line.
Result<RawOptions> parse(std::span<const std::string> words, CalledAs called = CalledAs::dtrain);

}  // namespace dtrain::cli
