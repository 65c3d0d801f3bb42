// Lays out the flag table as help, as a page on one flag, and as docs/cli.md.
#include "cli/help.h"

#include <fmt/format.h>

#include <utility>

#include "cli/flags.h"
#include "cli/text.h"

namespace dtrain::cli {
namespace {

constexpr std::size_t kWidth = 80;
constexpr std::size_t kColumn = 27;  // where the one-line help begins

constexpr Group kGroups[] = {Group::workers,  Group::nodes,  Group::program,
                             Group::stopping, Group::output, Group::general};

// The flags of a group that this version does in full; the others are named together, below.
std::vector<const Flag*> supported(Group group) {
  std::vector<const Flag*> rows;
  for (const Flag& row : flags())
    if (row.group == group && row.compat == Compat::none) rows.push_back(&row);
  return rows;
}

// "-t, --tee STREAMS"
std::string synopsis(const Flag& row) {
  std::string out = row.letter != 0 ? fmt::format("-{}, ", row.letter) : "";
  out += spelled(row);
  return row.is_switch() ? out : fmt::format("{} {}", out, row.value);
}

std::string variables(const Flag& row, const char* quote) {
  std::string out;
  for (const std::string& name : {dtrain_variable(row), pet_variable(row), std::string(row.also)})
    if (!name.empty()) out += fmt::format("{}{}{}{}", out.empty() ? "" : ", ", quote, name, quote);
  return out;
}

std::string flag_lines(const Flag& row) {
  std::string left = "  " + synopsis(row);
  std::string text(row.help);
  if (!row.fallback.empty()) text += fmt::format(" [{}]", row.fallback);
  std::string out;
  if (left.size() + 2 > kColumn) {
    out = left + "\n";
    left.clear();
  }
  for (const std::string& line : wrapped(text, kWidth - kColumn)) {
    out += fmt::format("{:<{}}{}\n", left, kColumn, line);
    left.clear();
  }
  return out;
}

std::string indented(std::string_view text) {
  std::string out;
  for (const std::string& line : wrapped(text, kWidth - 2)) out += "  " + line + "\n";
  return out;
}

std::string torchrun_names() {
  std::string names;
  for (const Flag& row : flags())
    if (row.compat != Compat::none) names += (names.empty() ? "" : ", ") + spelled(row);
  return names;
}

std::string page(const Flag& row) {
  std::string out = synopsis(row) + "\n";
  out += indented(row.help);
  if (!row.details.empty()) out += "\n" + indented(row.details);
  out += "\n";
  if (!row.alias.empty()) out += fmt::format("  Also:         --{}\n", row.alias);
  if (!row.fallback.empty()) out += fmt::format("  Default:      {}\n", row.fallback);
  std::string names = variables(row, "");
  constexpr std::size_t kLabels = 16;
  std::string label = "  Environment:";
  for (const std::string& line : wrapped(names, kWidth - kLabels))
    out += fmt::format("{:<{}}{}\n", std::exchange(label, ""), kLabels, line);
  while (out.ends_with("\n\n")) out.pop_back();
  return out;
}

std::string markdown(const Flag& row) {
  std::string out = fmt::format("### `{}`\n\n", synopsis(row));
  std::string help(row.help);
  if (help[0] >= 'a' && help[0] <= 'z') help[0] = static_cast<char>(help[0] - 'a' + 'A');
  out += help + ".";
  if (!row.details.empty()) out += fmt::format(" {}", row.details);
  out += "\n\n";
  if (!row.alias.empty()) out += fmt::format("- also `--{}`\n", row.alias);
  if (!row.fallback.empty()) out += fmt::format("- default `{}`\n", row.fallback);
  std::string names = variables(row, "`");
  if (!names.empty()) out += fmt::format("- environment {}\n", names);
  return out.ends_with("\n\n") ? out : out + "\n";
}

}  // namespace

std::string short_help() {
  return "dtrain runs distributed PyTorch and LibTorch programs.\n"
         "\n"
         "Usage:\n"
         "  dtrain run [flags] PROGRAM [program's arguments]\n"
         "\n"
         "Commands:\n"
         "  run      start PROGRAM as several workers and see them to their end\n"
         "  doctor   check what this machine can do, and say what to mend\n"
         "  version  show version, compiler and build\n"
         "  help     show this, or `dtrain help FLAG` about one flag\n"
         "\n"
         "Example:\n"
         "  dtrain run --nproc 2 ./train --lr=0.01\n"
         "\n"
         "`dtrain run --help` lists the flags.\n";
}

std::string run_help() {
  std::string out =
      "Usage: dtrain run [flags] PROGRAM [program's arguments]\n"
      "\n"
      "Everything after PROGRAM belongs to it. A flag may be written with - or _, as\n"
      "--flag VALUE or --flag=VALUE, and shortened while it stays unambiguous; the last\n"
      "occurrence counts. Most can be set in the environment: `dtrain help FLAG`.\n";
  for (Group group : kGroups) {
    if (supported(group).empty()) continue;
    out += fmt::format("\n{}:\n", title(group));
    for (const Flag* row : supported(group)) out += flag_lines(*row);
  }
  out += "\nKnown from torchrun, and without use on one node or not in this version:\n";
  out += indented(torchrun_names());
  out +=
      "\nExit code: the first failing worker's own, 128+n if signal n ended it; 2 usage,\n"
      "125 dtrain's own failure, 126 cannot be executed, 127 not found.\n";
  return out;
}

std::string markdown_help() {
  std::string out =
      "# Command line\n\n"
      "<!-- Made by `dtrain help --markdown` from cli/flag_table.cc; a test compares the two. -->\n\n"
      "`dtrain run [flags] PROGRAM [program's arguments]` starts PROGRAM as several workers.\n\n"
      "- Everything after PROGRAM belongs to it, verbatim; `--` before PROGRAM is allowed.\n"
      "- `--flag VALUE` and `--flag=VALUE` are the same, and so are `-` and `_` inside names. A name may be shortened "
      "while it stays unambiguous. The last occurrence counts.\n"
      "- A flag wins over `DTRAIN_*`, that over torchrun's `PET_*`, that over the default; an empty variable counts as "
      "unset. `--dry-run` shows each value and its origin.\n"
      "- In the environment a switch is on as 1 and off as 0.\n"
      "- Called by the name `torchrun`, dtrain takes the same flags without the word `run`, with torchrun's prefix and "
      "OMP_NUM_THREADS=1.\n\n"
      "Other commands: `dtrain doctor`, `dtrain version`, `dtrain help [FLAG]`. Exit codes: [exit-codes.md]"
      "(exit-codes.md).\n";
  for (Group group : kGroups) {
    if (supported(group).empty()) continue;
    out += fmt::format("\n## {}\n\n", title(group));
    for (const Flag* row : supported(group)) out += markdown(*row);
    while (out.ends_with("\n\n")) out.pop_back();
  }
  out += fmt::format("\n## {}\n\n| flag | in this version | environment |\n|---|---|---|\n", title(Group::torchrun));
  for (const Flag& row : flags())
    if (row.compat != Compat::none)
      out += fmt::format("| `{}` | {} | {} |\n", synopsis(row), row.help, variables(row, "`"));
  return out;
}

Result<std::string> help_on(std::string_view topic) {
  std::string name(topic);
  if (name == "run") return run_help();
  if (name == "doctor")
    return std::string(
        "Usage: dtrain doctor\n\nChecks what this machine can do for a job: how workers can be held\n"
        "together, cores, memory, limits, shared memory, the loopback network, Python\nand torch. Exits "
        "with 1 if something that dtrain needs is missing.\n");
  if (name == "version") return std::string("Usage: dtrain version\n\nShows version, compiler and build.\n");
  const Flag* row = name.size() == 2 && name[0] == '-' ? find_letter(name[1]) : nullptr;
  while (name.starts_with('-')) name.erase(0, 1);
  if (row == nullptr) row = find_flag(name);
  if (row == nullptr) {
    auto found = flags_with_prefix(name);
    if (found.size() == 1 && !name.empty()) row = found[0];
  }
  if (row != nullptr) return page(*row);
  std::vector<std::string> names = {"run", "doctor", "version"};
  for (const Flag& known : flags()) names.emplace_back(known.name);
  std::string near = closest(name, names);
  std::string hint = near.empty() ? "`dtrain run --help` lists the flags" : "did you mean " + near + "?";
  return Error{ErrorKind::usage, fmt::format("no help on '{}'; {}", printable(topic), hint)};
}

}  // namespace dtrain::cli
