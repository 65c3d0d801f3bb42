#include "cli/command_words.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/usage.h"

namespace dtrain::cli {

Result<std::map<std::string, std::string>> command_words(CommandId id, const std::vector<std::string>& words) {
  const auto all = commands();
  const Command& command = *std::find_if(all.begin(), all.end(), [&](const Command& row) { return row.id == id; });
  std::map<std::string, std::string> values;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string name = words[i].substr(0, words[i].find('='));
    const bool attached = name.size() < words[i].size();
    const auto row = std::find_if(command.flags.begin(), command.flags.end(),
                                  [&](const CommandFlag& flag) { return name == fmt::format("--{}", flag.name); });
    if (row == command.flags.end())
      return usage(fmt::format("dtrain {} takes {} and nothing else", command.name, command.arguments));
    if (row->value.empty()) {
      if (attached) return usage(name + " takes no value");
      values[std::string(row->name)] = "1";
      continue;
    }
    if (!attached && i + 1 == words.size()) return usage(fmt::format("{} wants a value: {}", name, row->value));
    std::string value = attached ? words[i].substr(name.size() + 1) : words[++i];
    if (value.empty()) return usage(fmt::format("{} wants a value: {}", name, row->value));
    values[std::string(row->name)] = std::move(value);
  }
  return values;
}

}  // namespace dtrain::cli
