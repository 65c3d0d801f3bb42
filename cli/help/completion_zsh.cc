// The script for zsh: a function for its completion system, to be found as _dtrain in $fpath.
// Tested by test/unit/cli/help/help_test.cc.
#include <fmt/format.h>

#include "cli/base/text.h"
#include "cli/help/completion.h"
#include "cli/table/command_table.h"

namespace dtrain::cli {
namespace {

constexpr std::string_view kZshHead = R"(#compdef dtrain torchrun
# Completions of dtrain and torchrun for zsh, made by `dtrain completion zsh`.

_dtrain_program() {
  _alternative 'files:program:_files' 'commands:program:_command_names -e'
}

)";

constexpr std::string_view kZshTail = R"(
if [[ $funcstack[1] == _dtrain ]]; then
  _dtrain "$@"
else
  compdef _dtrain dtrain torchrun
fi
)";

// Put a backslash before each of `special`.
std::string escaped(std::string_view text, std::string_view special) {
  std::string out;
  for (char c : text) {
    if (special.find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_values(const Flag& row) {
  switch (kind_of(row)) {
    case ValueKind::words:
      return fmt::format("({})", joined(split(row.choices, ','), " "));
    case ValueKind::folder:
      return "_files -/";
    case ValueKind::file:
      return "_files";
    case ValueKind::signals:
      return "_dtrain_signals";
    case ValueKind::none:
    case ValueKind::other:
      break;
  }
  return " ";
}

// One line for each name; a name excludes the flag's other names.
std::string zsh_flag(const Flag& row) {
  std::string out;
  for (const std::string& name : names_of(row)) {
    std::string spec = fmt::format("({}){}", joined(names_of(row), " "), name);
    if (!row.is_switch()) spec += name.starts_with("--") ? "=" : "+";
    spec += fmt::format("[{}]", escaped(row.help, "[]\\"));
    if (!row.is_switch()) spec += fmt::format(":{}:{}", escaped(row.value, ":"), zsh_values(row));
    out += fmt::format("    {} \\\n", shell_quoted(spec));
  }
  return out;
}

std::string run_function() {
  std::string out = fmt::format("_dtrain_signals() {{\n  _values -s , signal {}\n}}\n\n", signal_words());
  out +=
      "# Flags up to the program; its arguments are completed as files. Arguments are a command's own flags.\n"
      "_dtrain_run() {\n"
      "  local i\n"
      "  for ((i = 2; i < CURRENT; i++)); do\n"
      "    [[ $words[i] == --*_* && $words[i] != *=* ]] && words[i]=${words[i]//_/-}\n"
      "  done\n"
      "  _arguments -S -s -A '-*' "
      "\\\n";
  for (const Flag* row : offered_flags()) out += zsh_flag(*row);
  return out + "    \"$@\" '1:program:_dtrain_program' '*:argument:_default'\n}\n";
}

std::string zsh_case(const Command& command) {
  std::string out = fmt::format("    {}) ", command.name);
  out += takes_job(command) ? "_dtrain_run" : "_arguments --help'[tell about this command]'";
  for (const CommandFlag& flag : command.flags) {
    std::string rest = fmt::format("[{}]", escaped(flag.help, "[]\\"));
    if (!flag.value.empty()) rest += fmt::format(":{}: ", escaped(flag.value, ":"));
    const char* equals = flag.value.empty() ? "" : "=";
    out += " " + shell_quoted(fmt::format("--{}{}{}", flag.name, equals, rest));
    if (flag.letter != 0) out += " " + shell_quoted(fmt::format("-{}{}", flag.letter, rest));
  }
  std::vector<std::string> words = command.id == CommandId::help ? help_words() : split(command.choices, ',');
  if (takes_job(command)) return out + " ;;\n";
  if (!words[0].empty())
    out += fmt::format(" '1:argument:({})'", joined(words, " "));
  else if (command.arguments.starts_with("DIR"))
    out += " '1:folder:_files -/'";
  return out + " ;;\n";
}

std::string commands_function() {
  std::string names, cases;
  for (const Command& command : commands()) {
    names += fmt::format("    {}\n", shell_quoted(fmt::format("{}:{}", command.name, escaped(command.help, ":"))));
    cases += zsh_case(command);
  }
  return fmt::format(
      "\n_dtrain() {{\n"
      "  if [[ $service == torchrun ]]; then\n    _dtrain_run\n    return\n  fi\n"
      "  local -a commands=(\n{}  )\n"
      "  if ((CURRENT == 2)); then\n    _describe -t commands command commands\n    return\n  fi\n"
      "  shift words\n  ((CURRENT--))\n  case $words[1] in\n{}  esac\n}}\n",
      names, cases);
}

}  // namespace

std::string zsh_completion() {
  return std::string(kZshHead) + run_function() + commands_function() + std::string(kZshTail);
}

}  // namespace dtrain::cli
