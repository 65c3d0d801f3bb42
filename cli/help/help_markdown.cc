// The tables as docs/cli.md.
// Tested by test/unit/cli/help/help_test.cc.
#include <fmt/format.h>

#include "cli/base/text.h"
#include "cli/help/help.h"
#include "cli/table/command_table.h"
#include "cli/table/flags.h"

namespace dtrain::cli {
namespace {

std::string markdown(const Flag& row) {
  std::string out = fmt::format("### `{}`\n\n", synopsis(row)) + sentence(row.help);
  if (!row.details.empty()) out += fmt::format(" {}", row.details);
  out += "\n\n";
  if (!row.alias.empty()) out += fmt::format("- also `--{}`\n", row.alias);
  if (!row.choices.empty()) out += fmt::format("- values {}\n", in_words(row.choices, "`"));
  if (!row.fallback.empty()) out += fmt::format("- default `{}`\n", row.fallback);
  std::string names = variables(row, "`");
  if (!names.empty()) out += fmt::format("- environment {}\n", names);
  return out.ends_with("\n\n") ? out : out + "\n";
}

std::string markdown(const Command& row) {
  std::string_view blank = row.arguments.empty() ? "" : " ";
  std::string out = fmt::format("### `dtrain {}{}{}`\n\n", row.name, blank, row.arguments);
  out += sentence(row.help);
  if (!row.details.empty()) out += fmt::format(" {}", row.details);
  out += "\n\n";
  for (const CommandFlag& flag : row.flags) out += fmt::format("- `{}`: {}\n", synopsis(flag), flag.help);
  return out.ends_with("\n\n") ? out : out + "\n";
}

std::string other_commands() {
  std::string out = "\n## Other commands\n\n";
  for (const Command& row : commands())
    if (row.id != CommandId::run) out += markdown(row);
  return out + "Exit codes: [exit-codes.md](exit-codes.md).\n";
}

}  // namespace

std::string markdown_help() {
  std::string out =
      "# Command line\n\n<!-- Made by `dtrain help --markdown` from the tables in cli/table/; a test compares them. "
      "-->\n\n`dtrain run [flags] PROGRAM [program's arguments]` starts PROGRAM as several workers.\n\n- Everything "
      "after PROGRAM belongs to it, verbatim; `--` before PROGRAM is allowed.\n- `--flag VALUE` and `--flag=VALUE` are "
      "the same, and so are `-` and `_` inside names. A name may be shortened as long as it is unambiguous. The last "
      "occurrence counts.\n- A flag wins over `DTRAIN_*`, `DTRAIN_*` wins over torchrun's `PET_*`, and `PET_*` wins "
      "over the file of `--config`, and that over the default. An empty variable counts as unset. `--print-config` "
      "shows each value and its origin.\n- In "
      "the environment, 1 turns a switch on and 0 turns it off.\n- Called by the name `torchrun`, dtrain takes the "
      "same flags without the word `run`, with torchrun's prefix and OMP_NUM_THREADS=1.\n";
  for (Group group : kGroups) {
    auto rows = supported(group);
    if (rows.empty()) continue;
    out += fmt::format("\n## {}\n\n", title(group));
    for (const Flag* row : rows) out += markdown(*row);
    while (out.ends_with("\n\n")) out.pop_back();
  }
  out += fmt::format("\n## {}\n\n| flag | in this version | environment |\n|---|---|---|\n", title(Group::torchrun));
  for (const Flag& row : flags())
    if (row.compat != Compat::none)
      out += fmt::format("| `{}` | {} | {} |\n", synopsis(row), row.help, variables(row, "`"));
  return out + other_commands();
}

}  // namespace dtrain::cli
