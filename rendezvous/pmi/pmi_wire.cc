#include "rendezvous/pmi/pmi_wire.h"

#include <algorithm>

#include "rendezvous/base/check.h"
#include "rendezvous/base/printable.h"

namespace dtrain {
namespace {

constexpr std::string_view kCommand = "cmd";

bool is_word(std::string_view text) { return text.find_first_of(" \n\0") == std::string_view::npos; }

}  // namespace

std::string PmiLine::value(const std::string& name) const {
  const auto found = values.find(name);
  return found == values.end() ? "" : found->second;
}

Result<PmiLine> parse_pmi_line(std::string_view text) {
  const auto refuse = [whole = text] {
    return Error{ErrorKind::system, "PMI: the launcher says '" + printable(whole, 100) + "'"};
  };
  PmiLine line;
  std::string* last = nullptr;
  for (; !text.empty(); text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()))) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(word.size());
    const auto equals = word.find('=');
    if (equals == std::string_view::npos && last == nullptr) return refuse();
    if (equals == 0) return refuse();
    if (equals == std::string_view::npos) {
      last->append(" ").append(word);
      continue;
    }
    const std::string name(word.substr(0, equals));
    last = name == kCommand ? &line.command : &line.values[name];
    *last = word.substr(equals + 1);
  }
  if (line.command.empty()) return refuse();
  return line;
}

std::string pmi_line(std::string_view command, const std::vector<std::pair<std::string, std::string>>& values) {
  std::string text = std::string(kCommand) + "=" + std::string(command);
  for (const auto& [name, value] : values) {
    DT_CHECK(is_word(name) && is_word(value), "a word of PMI has no blanks");
    text += " " + name + "=" + value;
  }
  return text + "\n";
}

}  // namespace dtrain
