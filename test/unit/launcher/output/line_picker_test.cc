#include "launcher/output/line_picker.h"

#include <string>
#include <vector>

#include "test/support/catch.h"

namespace dtrain::launcher {
namespace {

using Lines = std::vector<std::string>;

// Feed in chunks of `size`, then end the stream. Each line with a "\n", as in a file.
Lines picked(const std::vector<std::string>& texts, const std::string& text, size_t size) {
  LinePicker picker(std::make_shared<const TextSearch>(texts));
  Lines lines;
  auto emit = [&](std::string_view line) { lines.push_back(std::string(line) + (line.ends_with('\n') ? "" : "\n")); };
  for (size_t at = 0; at < text.size(); at += size) picker.feed(std::string_view(text).substr(at, size), emit);
  picker.finish(emit);
  return lines;
}

}  // namespace

TEST_CASE("lines with one of the texts are picked whole, however they come") {
  const std::string text = "an apple\nnothing\r\n\x01\xff orange\r\na pear, no\n50% apple\rapplepie without end";
  for (size_t size : {1, 2, 3, 7, 1000})
    CHECK(picked({"apple", "orange"}, text, size) ==
          Lines{"an apple\n", "\x01\xff orange\r\n", "50% apple\r\n", "applepie without end\n"});
  CHECK(picked({"e,"}, text, 5).empty());
  CHECK(picked({"apple", "an"}, "an apple\n", 4) == Lines{"an apple\n"});  // once
}

TEST_CASE("a very long line is judged in pieces") {
  const std::string line = std::string(LineSplitter::kHoldLimit, 'x') + "needle" + std::string(1 << 20, 'y') + "\n";
  Lines lines = picked({"needle"}, line, 4096);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].size() <= LineSplitter::kHoldLimit + 4096 + 1);
  CHECK(lines[0].find("needle") != std::string::npos);
}

}  // namespace dtrain::launcher
