// Tested by test/unit/data/cache/cache_key_test.cc.
#include "data/cache/sha256.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>

#include "data/cache/cache_error.h"

namespace dtrain::data {
namespace {

void check_digest(int done) {
  if (done != 1) throw CacheError(kSystemCode, "OpenSSL gives no SHA-256 here");
}

}  // namespace

void Sha256::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  check_digest(context_ ? EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) : 0);
}

void Sha256::add(std::string_view bytes) { check_digest(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size())); }

std::string Sha256::end() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  check_digest(EVP_DigestFinal_ex(context_.get(), digest.data(), &size));
  std::string text;
  for (unsigned int i = 0; i < size; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

std::string sha256_of(std::string_view text) {
  Sha256 digest;
  digest.add(text);
  return digest.end();
}

}  // namespace dtrain::data
