// What the scripts for the shells have in common.
// Tested by test/unit/cli/help/help_test.cc.
#include "cli/help/completion.h"

#include <fmt/format.h>

#include "cli/base/text.h"
#include "cli/base/usage_error.h"

namespace dtrain::cli {

Result<std::string> completion_script(std::string_view shell) {
  if (shell.empty()) return usage_error("completions for which shell? dtrain completion bash, zsh or fish");
  if (shell == "bash") return bash_completion();
  if (shell == "zsh") return zsh_completion();
  if (shell == "fish") return fish_completion();
  Error error = one_of(shell, {"bash", "zsh", "fish"}).error();
  return error.in(fmt::format("shell '{}'", printable(shell)));
}

ValueKind kind_of(const Flag& row) {
  if (row.is_switch()) return ValueKind::none;
  if (!row.choices.empty()) return ValueKind::words;
  if (row.value == "DIR") return ValueKind::folder;
  if (row.value == "FILE") return ValueKind::file;
  return row.value == "SIGNALS" ? ValueKind::signals : ValueKind::other;
}

std::vector<const Flag*> offered_flags() {
  std::vector<const Flag*> rows;
  for (const Flag& row : flags())
    if (row.compat != Compat::missing) rows.push_back(&row);
  return rows;
}

std::vector<std::string> names_of(const Flag& row) {
  std::vector<std::string> names = {spelled(row)};
  if (!row.alias.empty()) names.push_back(fmt::format("--{}", row.alias));
  if (row.letter != 0) names.push_back(fmt::format("-{}", row.letter));
  return names;
}

std::string_view signal_words() { return "TERM INT HUP QUIT USR1 USR2 ALRM WINCH"; }

std::string joined(const std::vector<std::string>& words, std::string_view between) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : std::string(between)) + word;
  return out;
}

}  // namespace dtrain::cli
