// Tested by test/unit/data/files/aws_profile_test.cc.
#include "data/files/aws_profile.h"

#include <sstream>

namespace dtrain::data {
namespace {

std::string trimmed(const std::string& text) {
  constexpr const char* kBlank = " \t\r";
  const std::size_t begin = text.find_first_not_of(kBlank);
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

std::string in_small_letters(std::string text) {
  for (char& letter : text)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  return text;
}

}  // namespace

std::map<std::string, std::string> aws_profile(const std::string& text, const std::string& name) {
  std::map<std::string, std::string> values;
  std::istringstream lines(text);
  bool is_in = false;
  for (std::string line; std::getline(lines, line);) {
    const bool is_nested = line.starts_with(' ') || line.starts_with('\t');  // of a section within a value
    line = trimmed(line);
    if (line.empty() || line[0] == '#' || line[0] == ';' || is_nested) continue;
    if (line[0] == '[') {
      std::string section = trimmed(line.substr(1, line.find(']') - 1));
      if (section.starts_with("profile ")) section = trimmed(section.substr(section.find(' ')));
      is_in = section == name;
      continue;
    }
    const std::size_t equals = line.find('=');
    if (is_in && equals != std::string::npos)
      values[in_small_letters(trimmed(line.substr(0, equals)))] = trimmed(line.substr(equals + 1));
  }
  return values;
}

}  // namespace dtrain::data
