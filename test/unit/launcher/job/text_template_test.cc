#include "launcher/job/text_template.h"

#include "test/support/catch.h"

namespace dtrain::launcher {

// Each expectation is what Python's string.Template(text).safe_substitute(rank=7) returns.
TEST_CASE("substitute behaves as Python's safe_substitute") {
  auto [text, expected] = GENERATE(table<std::string, std::string>({
      {"", ""},
      {"plain", "plain"},
      {"$rank", "7"},
      {"${rank}", "7"},
      {"a${rank}b$rank", "a7b7"},
      {"$rank-$rank", "7-7"},
      {"$rankfile", "$rankfile"},
      {"${rankfile}", "${rankfile}"},
      {"$RANK", "$RANK"},
      {"$other ${other}", "$other ${other}"},
      {"$$", "$"},
      {"$$rank", "$rank"},
      {"$$$rank", "$7"},
      {"$$$$", "$$"},
      {"${rank", "${rank"},
      {"${ rank}", "${ rank}"},
      {"${}", "${}"},
      {"$", "$"},
      {"cost $5", "cost $5"},
      {"$5$rank", "$57"},
      {"${${rank}}", "${7}"},
      {"$\xc3\xa9", "$\xc3\xa9"},
      {"$rank\xc3\xa9", "7\xc3\xa9"},
      {"${rank\xc3\xa9}", "${rank\xc3\xa9}"},
  }));
  CAPTURE(text);
  CHECK(substitute(text, {{"rank", "7"}}) == expected);
}

TEST_CASE("a replaced value is not expanded again") { CHECK(substitute("$a", {{"a", "$a$$"}}) == "$a$$"); }

}  // namespace dtrain::launcher
