#include "rendezvous/base/printable.h"

#include "test/support/catch.h"

namespace dtrain {

TEST_CASE("what is echoed stays on one line and steers no terminal") {
  CHECK(printable("a\nb\x1b[31m\x7f") == "a\\x0ab\\x1b[31m\\x7f");
  CHECK(printable("a\tb") == "a\tb");
  CHECK(printable("grün ×8") == "grün ×8");
  CHECK(printable("\xc2\x9b"
                  "31m \xc2\xa0") == "\\xc2\\x9b31m \xc2\xa0");
}

TEST_CASE("what is echoed is cut between two characters") {
  CHECK(printable(std::string(80, 'x')) == std::string(80, 'x'));
  CHECK(printable(std::string(81, 'x')) == std::string(80, 'x') + "...");
  CHECK(printable("xü", 2) == "x...");
  CHECK(printable("xü", 3) == "xü");
  CHECK(printable("\xf0\x9f\x8c\x8dx", 3) == "...");
  CHECK(printable("\x80\x80\x80\x80\x80\x80", 4) == "\x80\x80\x80\x80...");
}

}  // namespace dtrain
