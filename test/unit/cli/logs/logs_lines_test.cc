#include "cli/logs/logs_lines.h"

#include "test/support/catch.h"

namespace dtrain::cli {
namespace {

constexpr int64_t kThen = 1795267323123;  // 2026-11-21T13:22:03.123 UTC

// What is shown, "|" where a line ends.
struct Shown {
  std::string text;
  void operator()(const LogPiece& piece) { text += std::string(piece.bytes) + (piece.ends ? "|" : ""); }
};

std::string picked(LineFilter filter, const std::vector<std::string>& chunks) {
  LogLines lines(std::move(filter));
  Shown shown;
  for (const std::string& chunk : chunks) lines.feed(chunk, shown);
  lines.finish(shown);
  return shown.text;
}

}  // namespace

TEST_CASE("the time that a line begins with") {
  for (const char* line : {"2026-11-21T13:22:03.123Z x", "2026-11-21T14:22:03.123+01:00 x", "2026-11-21 13:22:03,123Z",
                           "2026-11-21T08:52:03.1239-0430 x"})
    CHECK(line_time(line) == kThen);
  CHECK(line_time("2026-11-21T13:22:03Z") == kThen - 123);
  CHECK(line_time("2026-11-21T13:22:03.5Z") == kThen - 123 + 500);
  CHECK(line_time("2026-11-21 13:22:03,123 - INFO").has_value());  // local
  for (const char* none : {"", "x", "2026", "2026-11-21", "2026-13-21T13:22:03Z", "2026-11-00T13:22:03Z",
                           "2026-11-21T24:22:03Z", "2026-11-21T13:22:03.Z", "2026-11-21T13:22:03+1",
                           " 2026-11-21T13:22:03Z", "2026/11/21 13:22:03", "2026-11-21T13:22"})
    CHECK_FALSE(line_time(none).has_value());
  CHECK(carries_times("warning\n2026-11-21T13:22:03Z\n"));
  CHECK_FALSE(carries_times("warning\nat 2026-11-21T13:22:03Z\n"));
}

TEST_CASE("lines are picked by text and time, each as a whole") {
  CHECK(picked({}, {"a\nb", "c\n", "d"}) == "a\n|bc\n|d|");
  CHECK(picked({"b", {}}, {"a\nxb", "c\nd"}) == "xbc\n|");
  CHECK(picked({"bc", {}}, {"a\nxb", "c\nbc"}) == "xbc\n|bc|");
  const std::string early = "2026-11-21T13:22:03Z early\n", late = "2026-11-21T13:22:04Z late\n";
  CHECK(picked({"", kThen}, {"first\n", early, "  goes on\n", late, "  goes on"}) == late + "|  goes on|");
}

TEST_CASE("carriage returns end lines however the bytes are cut") {
  CHECK(picked({}, {"1%\r2%\rend\n"}) == "1%\r|2%\r|end\n|");
  CHECK(picked({}, {"\r1%", "\r2", "%\n"}) == "1%\r|2%\n|");
  CHECK(picked({}, {"x\r", "\ny\r\n"}) == "x\r|y\r\n|");
  CHECK(picked({}, {"x\n\r\n\ny"}) == "x\n|\r\n|\n|y|");
}

TEST_CASE("an unfinished line is shown when it stands still, and nothing twice") {
  LogLines lines({});
  Shown shown;
  lines.feed("one\nha", shown);
  REQUIRE(lines.waits());
  lines.quiet(shown);
  CHECK(shown.text == "one\n|ha");
  CHECK_FALSE(lines.waits());
  lines.quiet(shown);
  lines.feed("lf\nnext", shown);
  CHECK(shown.text == "one\n|half\n|");
  lines.finish(shown);
  CHECK(shown.text == "one\n|half\n|next|");
}

TEST_CASE("an unfinished line that may not be wanted waits for its end") {
  LogLines lines({"lf", {}});
  Shown shown;
  lines.feed("ha", shown);
  CHECK_FALSE(lines.waits());
  lines.quiet(shown);
  CHECK(shown.text.empty());
  lines.feed("l", shown);
  lines.feed("f", shown);
  CHECK(lines.waits());
  lines.quiet(shown);
  lines.feed(" and more\nno\n", shown);
  CHECK(shown.text == "half and more\n|");
}

TEST_CASE("a line longer than is held is one line") {
  const std::string much(launcher::LineSplitter::kHoldLimit, 'x');
  CHECK(picked({}, {much, much, "y\n"}) == much + much + "y\n|");
  CHECK(picked({"y", {}}, {much, much, "y", "z\n"}) == "yz\n|");
}

}  // namespace dtrain::cli
