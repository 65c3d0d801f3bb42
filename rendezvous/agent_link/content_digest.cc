// Tested by test/unit/rendezvous/agent_link/content_digest_test.cc.
#include "rendezvous/agent_link/content_digest.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "rendezvous/crypto/openssl.h"

namespace dtrain {
namespace {

Error no_digest() { return {ErrorKind::system, "OpenSSL cannot compute SHA-256"}; }

}  // namespace

Result<ContentDigest> ContentDigest::begin() {
  auto ssl = openssl();
  if (!ssl) return ssl.error();
  Context context((*ssl)->EVP_MD_CTX_new(), (*ssl)->EVP_MD_CTX_free);
  if (!context || (*ssl)->EVP_DigestInit_ex(context.get(), (*ssl)->EVP_sha256(), nullptr) != 1) return no_digest();
  return ContentDigest(std::move(context));
}

void ContentDigest::add(std::string_view bytes) {
  works_ = works_ && (*openssl())->EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1;
}

Result<std::string> ContentDigest::end() {
  std::array<unsigned char, 32> digest{};
  unsigned size = 0;
  if (!works_ || (*openssl())->EVP_DigestFinal_ex(context_.get(), digest.data(), &size) != 1 || size != digest.size())
    return no_digest();
  works_ = false;
  std::string text;
  for (const unsigned char byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace dtrain
