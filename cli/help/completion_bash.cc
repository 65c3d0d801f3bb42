// The script for bash. It needs nothing of the package bash-completion.
// Tested by test/unit/cli/help/help_test.cc.
#include <fmt/format.h>

#include "cli/base/text.h"
#include "cli/help/completion.h"
#include "cli/table/command_table.h"

namespace dtrain::cli {
namespace {

constexpr std::string_view kBashHead =
    R"(# Completions of dtrain and torchrun for bash, made by `dtrain completion bash`.

# Offer those of the words in $1 that begin with what was typed.
_dtrain_offer() {
  mapfile -t COMPREPLY < <(compgen -W "$1" -- "$_dtrain_typed")
}

# The last of several words separated by commas.
_dtrain_offer_list() {
  local before=
  [[ $_dtrain_typed == *,* ]] && before=${_dtrain_typed%,*},
  mapfile -t COMPREPLY < <(compgen -P "$before" -W "$1" -- "${_dtrain_typed##*,}")
  compopt -o nospace
}

)";

constexpr std::string_view kBashRun = R"(
# The line's words as the shell will see them: bash also splits COMP_WORDS at ':' and '=', as in host:29400.
_dtrain_split() {
  local line=$COMP_LINE blanks word i
  _dtrain_words=()
  for ((i = 0; i <= COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    blanks=${line%%[![:blank:]]*}
    line=${line#"$blanks"}
    line=${line#"$word"}
    if ((i > 0)) && [[ -z $blanks ]]; then
      _dtrain_words[-1]+=$word
    else
      _dtrain_words+=("$word")
    fi
  done
  _dtrain_last=$((${#_dtrain_words[@]} - 1))
}

# Flags from word $1 on, then the program, whose arguments are completed as files.
_dtrain_run() {
  local i=$1 name
  while ((i < _dtrain_last)); do
    name=${_dtrain_words[i]//_/-}
    case $name in
      --) break ;;
      -*=*) ((i += 1)) ;;
      -*)
        if [[ $_dtrain_with_value != *" $name "* ]]; then
          ((i += 1))
        elif ((i + 1 == _dtrain_last)); then
          _dtrain_value "$name"
          return
        else
          ((i += 2))
        fi
        ;;
      *) break ;;
    esac
  done
  if ((i >= _dtrain_last)) && [[ ${_dtrain_words[_dtrain_last]} == -*=* ]]; then
    name=${_dtrain_words[_dtrain_last]%%=*}
    _dtrain_value "${name//_/-}"
    return
  fi
  if ((i >= _dtrain_last)) && [[ $_dtrain_typed == -* ]]; then
    if [[ $_dtrain_typed == *_* ]]; then
      local dashed=${_dtrain_flags//--/ @}
      dashed=${dashed//-/_}
      _dtrain_offer "${dashed//@/--}"
    else
      _dtrain_offer "$_dtrain_flags"
    fi
  elif ((i >= _dtrain_last)) && [[ -n $_dtrain_typed && $_dtrain_typed != */* ]]; then
    mapfile -t COMPREPLY < <(compgen -A command -A file -- "$_dtrain_typed" | sort -u)
    compopt -o filenames
  else
    compopt -o default
  fi
}

_dtrain() {
  local _dtrain_typed=${COMP_WORDS[COMP_CWORD]} _dtrain_words _dtrain_last
  [[ $_dtrain_typed == [=:]* ]] && _dtrain_typed=
  COMPREPLY=()
  _dtrain_split
  if [[ ${1##*/} == torchrun ]]; then
    _dtrain_run 1
    return
  fi
  if ((_dtrain_last == 1)); then
    _dtrain_offer "$_dtrain_commands"
    return
  fi
  case ${_dtrain_words[1]} in
)";

constexpr std::string_view kBashTail = R"(  esac
}

complete -F _dtrain dtrain torchrun
)";

std::string bash_values(const Flag& row) {
  switch (kind_of(row)) {
    case ValueKind::words:
      return fmt::format("_dtrain_offer '{}'", joined(split(row.choices, ','), " "));
    case ValueKind::folder:
      return "compopt -o dirnames";
    case ValueKind::file:
      return "compopt -o default";
    case ValueKind::signals:
      return fmt::format("_dtrain_offer_list '{}'", signal_words());
    case ValueKind::none:
    case ValueKind::other:
      break;
  }
  return "";
}

std::string tables(const std::string& command_names) {
  std::string names, with_value, cases;
  for (const Flag* row : offered_flags()) {
    names += (names.empty() ? "" : " ") + joined(names_of(*row), " ");
    if (row->is_switch()) continue;
    with_value += " " + joined(names_of(*row), " ");
    std::string values = bash_values(*row);
    if (!values.empty()) cases += fmt::format("    {}) {} ;;\n", joined(names_of(*row), " | "), values);
  }
  return fmt::format(
      "_dtrain_flags='{}'\n_dtrain_with_value='{} '\n_dtrain_commands='{}'\n\n"
      "# Offer values of the flag $1.\n_dtrain_value() {{\n  case $1 in\n{}  esac\n}}\n",
      names, with_value, command_names, cases);
}

std::string flags_of(const Command& command) {
  std::string out;
  for (const CommandFlag& flag : command.flags) {
    out += fmt::format("--{} ", flag.name);
    if (flag.letter != 0) out += fmt::format("-{} ", flag.letter);
  }
  return out + "--help";
}

std::string bash_case(const Command& command) {
  if (takes_job(command)) {
    std::string own;  // _dtrain_run() sees the local variable
    for (const CommandFlag& flag : command.flags) own += fmt::format(" --{}", flag.name);
    if (!own.empty()) own = fmt::format("local _dtrain_flags=\"$_dtrain_flags{}\"; ", own);
    return fmt::format("    {}) {}_dtrain_run 2 ;;\n", command.name, own);
  }
  std::string words =
      command.id == CommandId::help ? joined(help_words(), " ") : joined(split(command.choices, ','), " ");
  std::string plain = command.arguments.starts_with("DIR") ? "compopt -o dirnames" : ":";
  if (!words.empty()) plain = fmt::format("((_dtrain_last == 2)) && _dtrain_offer '{}'", words);
  return fmt::format("    {}) if [[ $_dtrain_typed == -* ]]; then _dtrain_offer '{}'; else {}; fi ;;\n", command.name,
                     flags_of(command), plain);
}

}  // namespace

std::string bash_completion() {
  std::string names, cases;
  for (const Command& command : commands()) {
    names += fmt::format("{} ", command.name);
    cases += bash_case(command);
  }
  return std::string(kBashHead) + tables(names + "--help --version") + std::string(kBashRun) + cases +
         std::string(kBashTail);
}

}  // namespace dtrain::cli
