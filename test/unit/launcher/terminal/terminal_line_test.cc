#include "launcher/terminal/terminal_line.h"

#include "test/support/catch.h"

namespace dtrain::launcher {

TEST_CASE("lines are broken at blanks") {
  using Lines = std::vector<std::string>;
  CHECK(wrapped("aa bb cc", 5) == Lines{"aa bb", "cc"});
  CHECK(wrapped("aaaaaaaa b", 5) == Lines{"aaaaaaaa", "b"});
  CHECK(wrapped("", 5).empty());
  CHECK(wrapped("to `cc dd` it", 9) == Lines{"to", "`cc dd`", "it"});
  CHECK(wrapped("to (`cc  dd`, ee) it", 11) == Lines{"to", "(`cc dd`,", "ee) it"});
  CHECK(wrapped("to `cc ddddd` it", 9) == Lines{"to `cc", "ddddd` it"});
  CHECK(wrapped("`a` `b", 3) == Lines{"`a`", "`b"});
}

TEST_CASE("a line of dtrain's own is broken where a terminal would break it within a word") {
  CHECK(terminal_line("dtrain: SIGINT: passing it on", 80) == "dtrain: SIGINT: passing it on");
  CHECK(terminal_line("dtrain: SIGINT: passing it on", 0) == "dtrain: SIGINT: passing it on");
  CHECK(terminal_line("dtrain: SIGINT: passing it on", 25) == "dtrain: SIGINT: passing\n  it on");
  CHECK(terminal_line("dtrain: /a/path/that/is/longer/than/a/line", 24) ==
        "dtrain:\n  /a/path/that/is/longer/than/a/line");
}

}  // namespace dtrain::launcher
