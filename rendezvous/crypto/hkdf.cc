#include "rendezvous/crypto/hkdf.h"

#include <algorithm>
#include <string>

#include "rendezvous/base/check.h"
#include "rendezvous/crypto/openssl.h"

namespace dtrain {
namespace {

constexpr std::size_t kHash = 32;

Result<void> hmac(std::span<const std::uint8_t> key, std::span<const std::uint8_t> data, HkdfKey& digest) {
  auto ssl = openssl();
  if (!ssl) return ssl.error();
  const unsigned char none = 0;
  unsigned size = 0;
  if ((*ssl)->HMAC((*ssl)->EVP_sha256(), key.empty() ? &none : key.data(), static_cast<int>(key.size()), data.data(),
                   data.size(), digest.data(), &size) == nullptr ||
      size != kHash)
    return Error{ErrorKind::system, "OpenSSL cannot compute HMAC-SHA256"};
  return {};
}

}  // namespace

Result<HkdfKey> hkdf_extract(std::span<const std::uint8_t> salt, std::span<const std::uint8_t> secret) {
  HkdfKey extracted;
  if (auto done = hmac(salt, secret, extracted); !done) return done.error();
  return extracted;
}

Result<void> hkdf_expand(const HkdfKey& extracted, std::string_view info, std::span<std::uint8_t> key) {
  DT_CHECK(key.size() <= 255 * kHash, "RFC 5869 allows no more");
  HkdfKey block;
  std::string input;  // the block before, info, its number
  input.reserve(kHash + info.size() + 1);
  for (std::size_t done = 0, number = 1; done < key.size(); done += kHash, ++number) {
    if (number > 1) input.assign(block.begin(), block.end());
    input.append(info).push_back(static_cast<char>(number));
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(input.data());
    if (auto hashed = hmac(extracted, {bytes, input.size()}, block); !hashed) return hashed.error();
    std::copy_n(block.begin(), std::min(kHash, key.size() - done), key.begin() + static_cast<std::ptrdiff_t>(done));
    wipe(input.data(), input.size());
    input.clear();
  }
  return {};
}

}  // namespace dtrain
