#include "cli/parse/command_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cli/base/text.h"
#include "cli/base/usage_error.h"

namespace dtrain::cli {
namespace {

// All its flags; where they are many, as the usage line has it.
std::string takes(const Command& command) {
  if (command.arguments.ends_with("[flags]")) return std::string(command.arguments);
  std::string all;
  for (const CommandFlag& flag : command.flags) all += (all.empty() ? "" : ", ") + synopsis(flag);
  return all;
}

Error wants_value(const CommandFlag& flag) {
  const std::string what = flag.wants.empty() ? fmt::format("a value: {}", flag.value) : std::string(flag.wants);
  return usage_error(fmt::format("--{} needs {}", flag.name, what));
}

}  // namespace

Result<std::map<std::string, std::string>> command_words(CommandId id, const std::vector<std::string>& words,
                                                         Unknown unknown) {
  const auto all = commands();
  const Command& command = *std::find_if(all.begin(), all.end(), [&](const Command& row) { return row.id == id; });
  std::map<std::string, std::string> values;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string name = words[i].substr(0, words[i].find('='));
    const bool attached = name.size() < words[i].size();
    const auto row = std::find_if(command.flags.begin(), command.flags.end(),
                                  [&](const CommandFlag& flag) { return name == fmt::format("--{}", flag.name); });
    if (row == command.flags.end() || (attached && row->value.empty())) {
      const bool secret = unknown == Unknown::hidden;
      if (!secret && row != command.flags.end()) return usage_error(fmt::format("{} takes no value", name));
      if (!secret && name.starts_with('-')) return unknown_flag(command, words[i]);
      const std::string which = secret ? "" : fmt::format(" ({})", printable(words[i]));
      return usage_error(fmt::format("dtrain {} takes {} and nothing else{}", command.name, takes(command), which));
    }
    if (row->value.empty()) {
      values[std::string(row->name)] = "1";
      continue;
    }
    if (!attached && i + 1 == words.size()) return wants_value(*row);
    std::string value = attached ? words[i].substr(name.size() + 1) : words[++i];
    if (value.empty()) return wants_value(*row);
    values[std::string(row->name)] = std::move(value);
  }
  return values;
}

std::vector<std::string> take_plain_words(const Command& command, std::vector<std::string>& words) {
  std::vector<std::string> plain, rest;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!words[i].starts_with('-')) {
      plain.push_back(words[i]);
      continue;
    }
    rest.push_back(words[i]);
    for (const CommandFlag& flag : command.flags)
      if (!flag.value.empty() && words[i] == fmt::format("--{}", flag.name) && i + 1 < words.size())
        rest.push_back(words[++i]);
  }
  words = std::move(rest);
  return plain;
}

}  // namespace dtrain::cli
