// SHA-256 of contents, against known ones.
#include "rendezvous/agent_link/content_digest.h"

#include "test/support/catch.h"

using namespace dtrain;

TEST_CASE("a content's digest does not depend on its pieces") {
  auto nothing = ContentDigest::begin();
  REQUIRE(nothing.ok());
  CHECK(*nothing->end() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  auto whole = ContentDigest::begin(), pieces = ContentDigest::begin();
  whole->add("abc");
  for (const char* piece : {"a", "", "bc"}) pieces->add(piece);
  CHECK(*whole->end() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(*pieces->end() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK_FALSE(whole->end().ok());
}
