// Writes the tables as a manual page.
// Tested by test/unit/cli/help/help_test.cc.
#include "cli/help/man.h"

#include <fmt/format.h>

#include "cli/base/text.h"
#include "cli/base/version.h"
#include "cli/table/command_table.h"
#include "cli/table/flags.h"

namespace dtrain::cli {
namespace {

// Plain text for roff: a backslash, a minus that may be copied, and no accidental request at the start of a line.
std::string roff(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else if (c == '`')
      out += "\\(ga";
    else if (c == '\'')
      out += "\\(aq";
    else
      out += c;
  }
  return out.starts_with('.') ? "\\&" + out : out;
}

std::string with_full_stop(std::string_view text) {
  return text.empty() || text.ends_with('.') ? std::string(text) : std::string(text) + ".";
}

std::string item(std::string_view term, std::string_view text) {
  return fmt::format(".TP\n.B {}\n{}\n", roff(term), roff(text));
}

std::string item(const Flag& row) {
  std::string text = with_full_stop(row.help);
  if (!row.details.empty()) text += fmt::format(" {}", row.details);
  if (!row.alias.empty()) text += fmt::format(" Also --{}.", row.alias);
  if (!row.choices.empty() && !row.is_switch()) text += fmt::format(" Values: {}.", in_words(row.choices));
  if (!row.fallback.empty()) text += fmt::format(" Default: {}.", row.fallback);
  std::string names = variables(row);
  if (!names.empty()) text += fmt::format(" Environment: {}.", names);
  return item(synopsis(row), text);
}

std::string section(const Topic& topic) {
  std::string out = fmt::format(".SH {}\n{}\n", upper(topic.title), roff(topic.intro));
  for (const TopicEntry& row : topic.entries) out += item(row.term, row.text);
  return out;
}

std::string commands_section() {
  std::string out = ".SH COMMANDS\n";
  for (const Command& row : commands()) {
    std::string usage = fmt::format("dtrain {}{}{}", row.name, row.arguments.empty() ? "" : " ", row.arguments);
    std::string text = with_full_stop(row.help);
    if (!row.details.empty()) text += fmt::format(" {}", row.details);
    out += item(usage, text);
    for (const CommandFlag& flag : row.flags)
      out += ".RS\n" + item(synopsis(flag), with_full_stop(flag.help)) + ".RE\n";
  }
  return out;
}

std::string flags_section() {
  std::string out = ".SH FLAGS OF RUN\n" +
                    roff(
                        "Everything after PROGRAM belongs to it. A flag may be written with - or _, as --flag VALUE or "
                        "--flag=VALUE. It may be shortened as long as it is unambiguous. The last occurrence counts.") +
                    "\n";
  for (Group group : kGroups) {
    auto rows = supported(group);
    if (!rows.empty()) out += fmt::format(".SS {}\n", title(group));
    for (const Flag* row : rows) out += item(*row);
  }
  out += fmt::format(".SS {}\n", title(Group::torchrun));
  for (const Flag& row : flags())
    if (row.compat != Compat::none) out += item(synopsis(row), with_full_stop(row.help));
  return out;
}

}  // namespace

std::string man_page() {
  std::string version = version_line();
  version.pop_back();
  std::string out = fmt::format(
      ".\\\" Made by `dtrain help --man` from the tables of flags and commands.\n"
      ".TH DTRAIN 1 \"\" \"{}\" \"User Commands\"\n.nh\n.ad l\n",
      version);
  out +=
      ".SH NAME\ndtrain, torchrun \\- run distributed PyTorch and LibTorch programs\n"
      ".SH SYNOPSIS\n.B dtrain run\n[flags] PROGRAM [program\\(aqs arguments]\n.br\n"
      ".B dtrain\nCOMMAND [arguments]\n.br\n.B torchrun\n[flags] PROGRAM [program\\(aqs arguments]\n"
      ".SH DESCRIPTION\n" +
      roff(
          "dtrain starts PROGRAM as several workers, watches them and stops them. None of their processes outlives the "
          "job, and the first failure decides the exit code. Called by the name torchrun, dtrain takes torchrun's "
          "flags, with torchrun's prefix and OMP_NUM_THREADS=1.") +
      "\n" + commands_section() + flags_section();
  for (const Topic& topic : topics()) out += section(topic);
  return out + ".SH EXAMPLES\n.nf\n" + roff("dtrain run --nproc 2 ./train --lr=0.01") + "\n" +
         roff("dtrain run --nproc gpu train.py --lr 0.01") + "\n.fi\n";
}

}  // namespace dtrain::cli
