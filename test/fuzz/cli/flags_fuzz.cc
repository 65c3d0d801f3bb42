// Fuzzes the flag parser: whatever the words, it ends with a value for each flag or with one line, and what it
// understood, written out in full, is understood in the same way again.
#include <cstdint>
#include <string>
#include <vector>

#include "cli/base/text.h"
#include "cli/parse/parse.h"
#include "rendezvous/base/check.h"
#include "test/fuzz/one_line.h"

using namespace dtrain;
using namespace dtrain::cli;

namespace {

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

// Byte 0: the name that dtrain is called by; the rest: the words, as in argv each up to a zero byte.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const auto called = static_cast<CalledAs>(data[0] % 3);
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::vector<std::string> words = split(text, '\0');

  auto first = parse(words, called);
  if (!first) {
    DT_CHECK(first.error().kind == ErrorKind::usage, "whatever was typed wrongly is a usage error");
    check_one_line(first.error().message);
    return 0;
  }
  DT_CHECK(first->command.size() <= words.size(), "no word is invented");
  auto second = parse(written_out(*first), called);
  DT_CHECK(second.ok(), "what was understood can be written");
  DT_CHECK(second->command == first->command, "the program is the same");
  for (const Flag& row : flags()) {
    const auto &a = (*first)[row.id], &b = (*second)[row.id];
    DT_CHECK(a.has_value() == b.has_value(), "the same flags have a value");
    if (a) DT_CHECK(a->text == b->text, "the same value");
  }
  return 0;
}
