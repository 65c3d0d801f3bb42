// The token that can be typed: the same secret from the same code, and no typing mistake goes unseen.
#include "rendezvous/credentials/join_code.h"

#include <set>
#include <utility>

#include "test/support/catch.h"

using namespace dtrain;

namespace {

constexpr const char* kCode = "7Q2MX-0KD4R-9TGVA-C3S84";

std::string fault(const std::string& code) {
  const auto secret = secret_of_join_code(code);
  REQUIRE_FALSE(secret.ok());
  CHECK(secret.error().kind == ErrorKind::usage);
  return secret.error().message;
}

}  // namespace

// By Python: hashlib.pbkdf2_hmac("sha256", b"7Q2MX0KD4R9TGVAC3", b"dtrain join code 1", 1 << 20, 32).
TEST_CASE("a code is PBKDF2 of its letters") {
  const auto secret = secret_of_join_code(kCode);
  REQUIRE(secret.ok());
  CHECK(secret->text() == "dtrain-EbalwuH6vU_3GSyf5PhuYO1rPkPutQONGDNaIdj4RZ1tMlW5");
  const auto careless = secret_of_join_code(" 7q2mxOkd4r 9tgvac3s84\r\n");
  REQUIRE(careless.ok());
  CHECK(*careless == *secret);
}

TEST_CASE("codes differ, and are good") {
  std::set<std::string> codes;
  for (int i = 0; i < 200; ++i) codes.insert(make_join_code().value());
  CHECK(codes.size() == 200);
  const std::string& code = *codes.begin();
  REQUIRE(code.size() == 23);
  CHECK((code[5] == '-' && code[11] == '-' && code[17] == '-'));
  CHECK(secret_of_join_code(code).ok());
}

TEST_CASE("a wrong letter, two that have changed places, too few, too many: said, and not repeated") {
  const std::string code = kCode;
  const std::string letters = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
  for (std::size_t i = 0; i < code.size(); ++i) {
    if (code[i] == '-') continue;
    for (const char c : letters) {
      if (c == code[i]) continue;
      std::string wrong = code;
      wrong[i] = c;
      CHECK(fault(wrong) == "not a join code: a letter is wrong, or two have changed places");
    }
    if (i + 1 == code.size() || code[i + 1] == '-' || code[i] == code[i + 1]) continue;
    std::string swapped = code;
    std::swap(swapped[i], swapped[i + 1]);
    CHECK(fault(swapped) == "not a join code: a letter is wrong, or two have changed places");
  }
  CHECK(fault("") == "not a join code: it has 0 letters and digits instead of 20");
  CHECK(fault(code + "7") == "not a join code: it has 21 letters and digits instead of 20");
  CHECK(fault("7Q2MU") == "not a join code: codes do not contain its letter 5");
  CHECK(fault(std::string("7Q\0", 3)) == "not a join code: codes do not contain its letter 3");
}
