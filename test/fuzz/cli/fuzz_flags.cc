// Fuzzes the flag parser: whatever the words, it ends with a value for each flag or with one line, and what it
// understood, written out in full, is understood in the same way again.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "cli/parse.h"
#include "cli/text.h"

using namespace dtrain;
using namespace dtrain::cli;

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

std::vector<std::string> written_out(const RawOptions& raw) {
  std::vector<std::string> words;
  for (const Flag& row : flags()) {
    const auto& value = raw[row.id];
    if (!value) continue;
    bool bare = row.is_switch() && value->text == "1";
    words.push_back(bare ? spelled(row) : spelled(row) + "=" + value->text);
  }
  words.emplace_back("--");
  words.insert(words.end(), raw.command.begin(), raw.command.end());
  return words;
}

}  // namespace

// Byte 0: the name that dtrain is called by; the rest: the words, one a line.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const auto called = static_cast<CalledAs>(data[0] % 3);
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::vector<std::string> words = split(text, '\n');

  auto first = parse(words, called);
  if (!first) {
    require(first.error().kind == ErrorKind::usage);
    require(!first.error().message.empty() && first.error().message.find('\n') == std::string::npos);
    return 0;
  }
  require(first->command.size() <= words.size());
  auto second = parse(written_out(*first), called);
  require(second.ok());
  require(second->command == first->command);
  for (const Flag& row : flags()) {
    const auto &a = (*first)[row.id], &b = (*second)[row.id];
    require(a.has_value() == b.has_value());
    if (a) require(a->text == b->text);
  }
  return 0;
}
