// A link's identity: one text for each link, and everything else refused.
#include "rendezvous/credentials/link_name.h"

#include "test/support/catch.h"

using namespace dtrain;

TEST_CASE("an identity survives its text") {
  for (const LinkName& link : {LinkName{LinkRole::agent, 0, "job"}, LinkName{LinkRole::store, 12, "a/b//c"},
                               LinkName{LinkRole::store, ~0ULL, std::string(kJobBytes, 'j')}}) {
    const std::string text = encode(LinkIdentity{link, "0123abcd"});
    CHECK(text.size() <= kIdentityBytes);
    auto identity = parse_identity(text);
    REQUIRE(identity.has_value());
    CHECK(identity->link == link);
    CHECK(identity->fingerprint == "0123abcd");
  }
  CHECK(encode(LinkIdentity{{LinkRole::store, 3, "job"}, "0123abcd"}) == "dtrain1/store/3/0123abcd/job");
}

TEST_CASE("what is no identity is refused") {
  CHECK(parse_identity("dtrain1/store/3/0123abcd/job"));
  for (const std::string& text :
       {std::string(), std::string("dtrain1"), std::string("dtrain2/store/3/0123abcd/job"),
        std::string("dtrain1/worker/3/0123abcd/job"), std::string("dtrain1/store/3/0123abcd/"),
        std::string("dtrain1/store/3/0123abcd"), std::string("dtrain1/store//0123abcd/job"),
        std::string("dtrain1/store/03/0123abcd/job"), std::string("dtrain1/store/-3/0123abcd/job"),
        std::string("dtrain1/store/3 /0123abcd/job"), std::string("dtrain1/store/18446744073709551616/0123abcd/job"),
        std::string("dtrain1/store/3/0123ABCD/job"), std::string("dtrain1/store/3/0123abc/job"),
        std::string("dtrain1/store/3/0123abcde/job"), "dtrain1/store/3/0123abcd/" + std::string(kJobBytes + 1, 'j'),
        std::string(100000, '/')}) {
    INFO(text.substr(0, 80));
    CHECK_FALSE(parse_identity(text));
  }
}
