// Tested by test/unit/data/commands/commands_test.cc.
#include "data/commands/key_lines.h"

#include <fmt/format.h>

#include <cctype>

namespace dtrain::data {
namespace {

bool begins_with_path(const std::string& message, const std::string& path) {
  if (!message.starts_with(path)) return false;
  const char next = path.size() == message.size() ? ':' : message[path.size()];
  return std::isalnum(static_cast<unsigned char>(next)) == 0 && next != '_';
}

}  // namespace

std::string with_line(const std::string& message, const std::string& file, const nlohmann::json& lines) {
  std::string best;
  for (const auto& [path, line] : lines.items())
    if (path.size() > best.size() && begins_with_path(message, path)) best = path;
  if (best.empty()) return message;
  return fmt::format("{}:{}: {}", file, lines.at(best).get<int>(), message);
}

}  // namespace dtrain::data
