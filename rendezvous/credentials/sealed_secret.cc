#include "rendezvous/credentials/sealed_secret.h"

#include <string_view>

#include "rendezvous/crypto/openssl.h"

namespace dtrain {
namespace {

constexpr std::size_t kTag = 16;  // bytes that prove that nothing has changed
using Derived = Wiped<32>;
using KeyPointer = std::unique_ptr<EVP_PKEY, decltype(&::EVP_PKEY_free)>;
using Agreement = std::unique_ptr<EVP_PKEY_CTX, decltype(&::EVP_PKEY_CTX_free)>;
using Cipher = std::unique_ptr<EVP_CIPHER_CTX, decltype(&::EVP_CIPHER_CTX_free)>;

Error sealing_failed(const std::string& what) { return {ErrorKind::system, "the job's secret: " + what}; }

std::string_view view(const PublicKey& key) { return {reinterpret_cast<const char*>(key.data()), key.size()}; }

// What only the two owners can compute.
Result<void> agree(const OpenSsl& ssl, EVP_PKEY* own, const PublicKey& other, Derived& shared) {
  const KeyPointer peer(ssl.EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, nullptr, other.data(), other.size()),
                        ssl.EVP_PKEY_free);
  const Agreement agreement(ssl.EVP_PKEY_CTX_new(own, nullptr), ssl.EVP_PKEY_CTX_free);
  std::size_t size = shared.size();
  if (!peer || !agreement || ssl.EVP_PKEY_derive_init(agreement.get()) != 1 ||
      ssl.EVP_PKEY_derive_set_peer(agreement.get(), peer.get()) != 1 ||
      ssl.EVP_PKEY_derive(agreement.get(), shared.data(), &size) != 1 || size != shared.size())
    return sealing_failed("a public key of another node makes no sense");
  return {};
}

Result<void> encrypt(const OpenSsl& ssl, const Derived& key, const std::string& text, std::string& sealed) {
  const Cipher cipher(ssl.EVP_CIPHER_CTX_new(), ssl.EVP_CIPHER_CTX_free);
  const unsigned char nonce[12] = {};  // the key is used once
  sealed.resize(text.size() + kTag);
  auto* out = reinterpret_cast<unsigned char*>(sealed.data());
  int size = 0, rest = 0;
  if (!cipher || ssl.EVP_EncryptInit_ex(cipher.get(), ssl.EVP_aes_256_gcm(), nullptr, key.data(), nonce) != 1 ||
      ssl.EVP_EncryptUpdate(cipher.get(), out, &size, reinterpret_cast<const unsigned char*>(text.data()),
                            static_cast<int>(text.size())) != 1 ||
      ssl.EVP_EncryptFinal_ex(cipher.get(), out + size, &rest) != 1 ||
      ssl.EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_GET_TAG, kTag, out + text.size()) != 1)
    return sealing_failed("OpenSSL cannot seal it");
  return {};
}

Result<void> decrypt(const OpenSsl& ssl, const Derived& key, std::string sealed, std::string& text) {
  const Cipher cipher(ssl.EVP_CIPHER_CTX_new(), ssl.EVP_CIPHER_CTX_free);
  const unsigned char nonce[12] = {};
  if (sealed.size() < kTag) return sealing_failed("what came is too short");
  text.resize(sealed.size() - kTag);
  auto* in = reinterpret_cast<unsigned char*>(sealed.data());
  auto* out = reinterpret_cast<unsigned char*>(text.data());
  int size = 0, rest = 0;
  if (!cipher || ssl.EVP_DecryptInit_ex(cipher.get(), ssl.EVP_aes_256_gcm(), nullptr, key.data(), nonce) != 1 ||
      ssl.EVP_DecryptUpdate(cipher.get(), out, &size, in, static_cast<int>(text.size())) != 1 ||
      ssl.EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_SET_TAG, kTag, in + text.size()) != 1 ||
      ssl.EVP_DecryptFinal_ex(cipher.get(), out + size, &rest) != 1) {
    wipe(text.data(), text.size());
    return sealing_failed("it was sealed for another node, or changed on its way");
  }
  return {};
}

}  // namespace

struct SealingKeys::Private {
  const OpenSsl& ssl;
  KeyPointer key;

  // The key for what `maker` seals for `reader`.
  Result<void> derive(const PublicKey& other, const PublicKey& maker, const PublicKey& reader,
                      const std::string& purpose, Derived& key_of_both) const {
    Derived shared;
    if (auto done = agree(ssl, key.get(), other, shared); !done) return done;
    auto extracted = hkdf_extract({}, shared);
    if (!extracted) return extracted.error();
    std::string info = "dtrain sealed secret 1 ";
    info.append(view(maker)).append(view(reader)).append(purpose);
    return hkdf_expand(*extracted, info, key_of_both);
  }
};

Result<SealingKeys> SealingKeys::generate() {
  auto ssl = openssl();
  if (!ssl) return ssl.error();
  KeyPointer key((*ssl)->EVP_PKEY_Q_keygen(nullptr, nullptr, "X25519"), (*ssl)->EVP_PKEY_free);
  PublicKey shown;
  std::size_t size = shown.size();
  if (!key || (*ssl)->EVP_PKEY_get_raw_public_key(key.get(), shown.data(), &size) != 1 || size != shown.size())
    return sealing_failed("OpenSSL cannot make keys of X25519");
  return SealingKeys(std::make_shared<Private>(Private{**ssl, std::move(key)}), shown);
}

Result<std::string> SealingKeys::seal(const JobSecret& secret, const PublicKey& reader,
                                      const std::string& purpose) const {
  Derived key;
  if (auto done = private_->derive(reader, public_, reader, purpose, key); !done) return done.error();
  std::string text = secret.text(), sealed;
  const auto done = encrypt(private_->ssl, key, text, sealed);
  wipe(text.data(), text.size());
  if (!done) return done.error();
  return sealed;
}

Result<JobSecret> SealingKeys::open(const std::string& sealed, const PublicKey& maker,
                                    const std::string& purpose) const {
  Derived key;
  if (auto done = private_->derive(maker, maker, public_, purpose, key); !done) return done.error();
  std::string text;
  if (auto done = decrypt(private_->ssl, key, sealed, text); !done) return done.error();
  auto secret = JobSecret::parse(text);
  wipe(text.data(), text.size());
  return secret;
}

}  // namespace dtrain
