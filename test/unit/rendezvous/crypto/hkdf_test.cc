// HKDF-SHA256 against the vectors of RFC 5869, appendix A.
#include "rendezvous/crypto/hkdf.h"

#include <string>
#include <vector>

#include "test/support/catch.h"

using namespace dtrain;

namespace {

std::string bytes(const std::string& hex) {
  std::string out;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    out += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return out;
}

std::span<const std::uint8_t> span_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

std::string from(unsigned first, unsigned count) {
  std::string out;
  for (unsigned i = 0; i < count; ++i) out += static_cast<char>(first + i);
  return out;
}

void check(const std::string& secret, const std::string& salt, const std::string& info,
           const std::string& extracted_hex, const std::string& key_hex) {
  auto extracted = hkdf_extract(span_of(salt), span_of(secret));
  REQUIRE(extracted.ok());
  CHECK(std::string(extracted->begin(), extracted->end()) == bytes(extracted_hex));
  std::vector<std::uint8_t> key(key_hex.size() / 2);
  REQUIRE(hkdf_expand(*extracted, info, key).ok());
  CHECK(std::string(key.begin(), key.end()) == bytes(key_hex));
}

}  // namespace

TEST_CASE("HKDF: RFC 5869, test case 1") {
  check(std::string(22, 0x0b), from(0, 13), from(0xf0, 10),
        "077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5",
        "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865");
}

TEST_CASE("HKDF: RFC 5869, test case 2, longer than one block") {
  check(from(0, 80), from(0x60, 80), from(0xb0, 80), "06a6b88c5853361a06104c9ceb35b45cef760014904671014a193f40c15fc244",
        "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827271cb41c65e590e09"
        "da3275600c2f09b8367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f1d87");
}

TEST_CASE("HKDF: RFC 5869, test case 3, without salt and info") {
  check(std::string(22, 0x0b), "", "", "19ef24a32c717b167f33a91d6f648bdf96596776afdb6377ac434c1c293ccb04",
        "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8");
}
