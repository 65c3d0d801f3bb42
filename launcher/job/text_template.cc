#include "launcher/job/text_template.h"

namespace dtrain::launcher {
namespace {

bool starts_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool continues_name(char c) { return starts_name(c) || (c >= '0' && c <= '9'); }

// The identifier at the front of `text`; empty when there is none.
std::string_view leading_name(std::string_view text) {
  if (text.empty() || !starts_name(text[0])) return {};
  size_t length = 1;
  while (length < text.size() && continues_name(text[length])) ++length;
  return text.substr(0, length);
}

}  // namespace

std::string substitute(std::string_view text, const std::vector<std::pair<std::string, std::string>>& fields,
                       DoubleDollar double_dollar) {
  std::string result;
  while (!text.empty()) {
    size_t dollar = text.find('$');
    result += text.substr(0, dollar);
    if (dollar == std::string_view::npos) break;
    text.remove_prefix(dollar);

    if (text.substr(1, 1) == "$") {
      result += double_dollar == DoubleDollar::collapse ? "$" : "$$";
      text.remove_prefix(2);
      continue;
    }
    bool braced = text.substr(1, 1) == "{";
    std::string_view name = leading_name(text.substr(braced ? 2 : 1));
    size_t length = 1 + name.size() + (braced ? 2 : 0);
    if (name.empty() || (braced && text.substr(length - 1, 1) != "}")) length = 1;  // a `$` that means itself
    std::string_view replacement = text.substr(0, length);
    if (length > 1) {
      for (const auto& [field, value] : fields) {
        if (field == name) replacement = value;
      }
    }
    result += replacement;
    text.remove_prefix(length);
  }
  return result;
}

}  // namespace dtrain::launcher
