// The script for fish.
// Tested by test/unit/cli/help/help_test.cc.
#include <fmt/format.h>

#include "cli/base/text.h"
#include "cli/help/completion.h"
#include "cli/table/command_table.h"

namespace dtrain::cli {
namespace {

constexpr std::string_view kPlace = R"(
# Where the cursor is: before the command, in a command (its name), or past the program of run (program).
function __dtrain_place
    set -l words (commandline -opc)
    set -l called (string replace -r '.*/' '' -- $words[1])
    set -e words[1]
    if test "$called" != torchrun
        if not set -q words[1]
            echo command
            return
        end
        if not contains -- $words[1] run plan predict launch
            echo $words[1]
            return
        end
        set -e words[1]
    end
    set -l value no
    for word in $words
        if test $value = yes
            set value no
        else if test "$word" = --
            echo program
            return
        else if contains -- (string replace -a _ - -- $word) $__dtrain_with_value
            set value yes
        else if not string match -q -- '-*' $word
            echo program
            return
        end
    end
    echo run
end

complete -c dtrain -f
complete -c torchrun -f
)";

// A word for fish, always in quotes: only \ and ' are special there.
std::string quoted(std::string_view text) {
  std::string out = "'";
  for (char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

std::string fish_values(const Flag& row) {
  switch (kind_of(row)) {
    case ValueKind::none:
      return "";
    case ValueKind::words:
      return fmt::format(" -x -a {}", quoted(joined(split(row.choices, ','), " ")));
    case ValueKind::folder:
      return " -x -a '(__fish_complete_directories (commandline -ct))'";
    case ValueKind::file:
      return " -r -F";
    case ValueKind::signals:
      return " -x -a '(__fish_complete_list , __dtrain_signals)'";
    case ValueKind::other:
      break;
  }
  return " -x";
}

std::string fish_flag(const Flag& row) {
  std::string out;
  for (const std::string& name : names_of(row)) {
    bool is_long = name.starts_with("--");
    out += fmt::format("    complete -c $name -n 'test (__dtrain_place) = run' {} {}{} -d {}\n", is_long ? "-l" : "-s",
                       name.substr(is_long ? 2 : 1), fish_values(row), quoted(row.help));
  }
  return out;
}

std::string command_lines(const Command& command) {
  std::string out = fmt::format("complete -c dtrain -n 'test (__dtrain_place) = command' -a {} -d {}\n", command.name,
                                quoted(command.help));
  // Among the flags of a job the place is `run`, whatever the command is.
  std::string here = fmt::format("complete -c dtrain -n 'test (__dtrain_place) = {}'", command.name);
  if (takes_job(command))
    here = fmt::format("complete -c dtrain -n 'test (__dtrain_place) = run; and contains -- {} (commandline -opc)[2]'",
                       command.name);
  for (const CommandFlag& flag : command.flags)
    out +=
        fmt::format("{} -l {}{}{} -d {}\n", here, flag.name, flag.letter != 0 ? fmt::format(" -s {}", flag.letter) : "",
                    flag.value.empty() ? "" : " -x", quoted(flag.help));
  if (takes_job(command)) return out;
  std::vector<std::string> words = command.id == CommandId::help ? help_words() : split(command.choices, ',');
  if (!words[0].empty()) return out + fmt::format("{} -a {}\n", here, quoted(joined(words, " ")));
  if (!command.arguments.starts_with("DIR")) return out;
  return out + here + " -a '(__fish_complete_directories (commandline -ct))'\n";
}

}  // namespace

std::string fish_completion() {
  std::string with_value, lines, others;
  for (const Flag* row : offered_flags()) {
    if (!row->is_switch()) with_value += " " + joined(names_of(*row), " ");
    lines += fish_flag(*row);
  }
  for (const Command& command : commands()) others += command_lines(command);
  return fmt::format(
      "# Completions of dtrain and torchrun for fish, made by `dtrain completion fish`.\n\n"
      "set -g __dtrain_with_value{}\n\nfunction __dtrain_signals\n    string split ' ' '{}'\nend\n{}\n{}\n"
      "for name in dtrain torchrun\n{}"
      "    complete -c $name -n 'contains (__dtrain_place) run program' -F\nend\n",
      with_value, signal_words(), kPlace, others, lines);
}

}  // namespace dtrain::cli
