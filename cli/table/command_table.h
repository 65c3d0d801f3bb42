#pragma once
// The one table of dtrain's commands. main.cc runs them; help, did-you-mean, completions and the man page read them.
// A new command is a row here and a handler in main.cc's table.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/base/result.h"

namespace dtrain::cli {

enum class CommandId {
  run,
  plan,
  predict,
  launch,
  shim,
  agent,
  logs,
  status,
  flight,
  ckpt,
  estimate,
  preprocess,
  cache,
  rendezvous,
  doctor,
  env,
  token,
  completion,
  install_torchrun,
  version,
  help
};

// A flag of a command other than `run` (whose flags are in flags.h).
struct CommandFlag {
  std::string_view name;        // without the leading "--"
  char letter = 0;              // -r
  std::string_view value = {};  // what the help calls the value; empty: a switch
  std::string_view help = {};   // one line
  std::string_view wants = {};  // what the value is, for an error that says so; empty: `value` says enough
};

struct Command {
  CommandId id;
  std::string_view name;
  std::string_view arguments = {};  // as in its usage line; empty: it takes none
  std::string_view help;            // one line
  std::string_view details = {};    // what the line does not say
  std::string_view choices = {};    // words that its argument may be, separated by commas
  std::span<const CommandFlag> flags = {};
  bool runs_command = false;  // the words after it are a command's, with flags of its own
  bool once = false;          // seldom typed: not on the first screen of help
};

// Whether it takes the flags of `dtrain run` and a program: run itself, plan, predict and launch.
inline bool takes_job(const Command& command) {
  return command.id == CommandId::run || command.id == CommandId::plan || command.id == CommandId::predict ||
         command.id == CommandId::launch;
}

// All rows, in the order of the help.
std::span<const Command> commands();
const Command* find_command(std::string_view name);
// "-r, --rank RANK"
std::string synopsis(const CommandFlag& flag);

// The error about a word that looks like a flag and is none of this command.
Error unknown_flag(const Command& command, const std::string& word);

// What `dtrain help` knows besides commands and flags.
struct TopicEntry {
  std::string term;
  std::string text;
};
struct Topic {
  std::string_view name;   // "exit-codes"
  std::string_view title;  // "Exit codes"
  std::string_view intro;
  std::vector<TopicEntry> entries;
};
std::vector<Topic> topics();

// Everything after which `dtrain help` can be asked, for did-you-mean and completions: commands, topics, flags.
std::vector<std::string> help_words();

}  // namespace dtrain::cli
