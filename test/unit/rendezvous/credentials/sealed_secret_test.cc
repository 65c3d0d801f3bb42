// A secret that is sealed for one node.
#include "rendezvous/credentials/sealed_secret.h"

#include "test/support/catch.h"

using namespace dtrain;
using Catch::Contains;

TEST_CASE("a sealed secret is opened by its reader, and by nobody else") {
  const auto maker = SealingKeys::generate(), reader = SealingKeys::generate(), other = SealingKeys::generate();
  REQUIRE((maker.ok() && reader.ok() && other.ok()));
  const JobSecret secret = *JobSecret::generate();
  const std::string sealed = *maker->seal(secret, reader->shown(), "job 1");
  CHECK(sealed.find(secret.text()) == std::string::npos);
  CHECK(reader->open(sealed, maker->shown(), "job 1")->text() == secret.text());
  CHECK(*reader->seal(secret, maker->shown(), "job 1") != sealed);  // the way back is another one
  const auto refused = [&](const SealingKeys& who, const PublicKey& from, const std::string& text,
                           const std::string& purpose) {
    const auto opened = who.open(text, from, purpose);
    return opened ? std::string("opened") : opened.error().message;
  };
  CHECK_THAT(refused(*reader, maker->shown(), sealed, "job 2"), Contains("for another node, or changed"));
  CHECK_THAT(refused(*reader, other->shown(), sealed, "job 1"), Contains("for another node, or changed"));
  CHECK_THAT(refused(*other, maker->shown(), sealed, "job 1"), Contains("for another node, or changed"));
  CHECK_THAT(refused(*reader, maker->shown(), sealed.substr(0, 10), "job 1"), Contains("too short"));
  CHECK_THAT(refused(*reader, PublicKey{}, sealed, "job 1"), Contains("public key of another node makes no sense"));
  for (std::size_t at : {std::size_t{0}, sealed.size() / 2, sealed.size() - 1}) {
    std::string changed = sealed;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    CHECK_THAT(refused(*reader, maker->shown(), changed, "job 1"), Contains("changed on its way"));
  }
}
