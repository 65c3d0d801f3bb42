#include "launcher/job/prefix.h"

#include "test/support/catch.h"

namespace dtrain::launcher {

TEST_CASE("render_prefix replaces torchrun's four macros") {
  PrefixFields fields{"trainer", 1, 9, "node4"};
  CHECK(render_prefix("[${role_name}${local_rank}]:", fields) == "[trainer1]:");
  CHECK(render_prefix("$rank@${hostname} ", fields) == "9@node4 ");
  CHECK(render_prefix("${unknown} $$", fields) == "${unknown} $");
  CHECK(render_prefix("", fields) == "");
  CHECK(render_prefix("[g${replica_group}:${rank}] ", fields) == "[g${replica_group}:9] ");
  fields.replica_group = 2;
  CHECK(render_prefix("[g${replica_group}:${rank}] ", fields) == "[g2:9] ");
}

TEST_CASE("color_prefix resets what it sets and tells neighbouring ranks apart") {
  CHECK(color_prefix("[0] ", 0) == "\x1b[36m[0] \x1b[0m");
  CHECK(color_prefix("", 0) == "");
  for (int rank = 0; rank < 20; ++rank) CHECK(color_prefix("x", rank) != color_prefix("x", rank + 1));
}

}  // namespace dtrain::launcher
