// The number by which an agent votes. Agents of two versions of dtrain must make the same of an id: it is pinned here.
#include "rendezvous/rounds/round_messages.h"
#include "test/support/catch.h"

using namespace dtrain;

TEST_CASE("the number by which an agent votes is FNV-1a of its id") {
  CHECK(voter_id("") == 0xcbf29ce484222325);
  CHECK(voter_id("a") == 0xaf63dc4c8601ec8c);
  CHECK(voter_id("foobar") == 0x85944171f73967e8);
  CHECK(voter_id("\xff") == 0xaf64724c8602eb6e);  // a byte, whatever the sign of char
}

TEST_CASE("no agent votes as number 0, which means none") {
  // An id whose hash is 0 (published with the function).
  CHECK(voter_id("\xd5\x6b\xb9\x53\x42\x87\x08\x36") == 1);
}
