#include "rendezvous/credentials/job_certificates.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <memory>

#include "rendezvous/crypto/openssl.h"
#include "rendezvous/net/host_names.h"

namespace dtrain {
namespace {

constexpr long kDay = 86400;
constexpr long kGoodFor = 365 * kDay;

using Key = std::shared_ptr<EVP_PKEY>;
using Certificate = std::shared_ptr<X509>;

Error failed(const OpenSsl& ssl) {
  const char* why = ssl.ERR_reason_error_string(ssl.ERR_peek_error());
  return {ErrorKind::system, fmt::format("OpenSSL makes no certificate: {}", why != nullptr ? why : "no reason given")};
}

// RFC 5915 with the curve's name; OpenSSL works out the public key.
Result<Key> key_of_scalar(const OpenSsl& ssl, const HkdfKey& scalar) {
  constexpr std::array<std::uint8_t, 7> kHead = {0x30, 0x31, 0x02, 0x01, 0x01, 0x04, 0x20};
  constexpr std::array<std::uint8_t, 12> kP256 = {0xa0, 0x0a, 0x06, 0x08, 0x2a, 0x86,
                                                  0x48, 0xce, 0x3d, 0x03, 0x01, 0x07};
  Wiped<kHead.size() + 32 + kP256.size()> der;
  auto* end = std::copy(kHead.begin(), kHead.end(), der.data());
  end = std::copy(scalar.begin(), scalar.end(), end);
  std::copy(kP256.begin(), kP256.end(), end);
  const unsigned char* at = der.data();
  Key key(ssl.d2i_AutoPrivateKey(nullptr, &at, long(der.size())), ssl.EVP_PKEY_free);
  if (!key) return failed(ssl);
  return key;
}

bool extend(const OpenSsl& ssl, X509* certificate, int nid, const std::string& value) {
  X509V3_CTX context{};
  ssl.X509V3_set_ctx(&context, certificate, certificate, nullptr, nullptr, 0);
  const std::shared_ptr<X509_EXTENSION> extension(ssl.X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()),
                                                  ssl.X509_EXTENSION_free);
  return extension && ssl.X509_add_ext(certificate, extension.get(), -1) == 1;
}

bool name(const OpenSsl& ssl, X509_NAME* of, const char* field, const char* value) {
  const auto* text = reinterpret_cast<const unsigned char*>(value);
  return ssl.X509_NAME_add_entry_by_txt(of, field, MBSTRING_ASC, text, -1, -1, 0) == 1;
}

// Without extensions and signature. The issuer is always the authority.
Result<Certificate> blank(const OpenSsl& ssl, EVP_PKEY* key, bool authority) {
  Certificate made(ssl.X509_new(), ssl.X509_free);
  std::uint64_t serial = 0;
  if (::getrandom(&serial, sizeof serial, 0) != ssize_t(sizeof serial)) serial = 1;
  const std::shared_ptr<X509_NAME> issuer(ssl.X509_NAME_new(), ssl.X509_NAME_free);
  if (!made || !issuer || ssl.X509_set_version(made.get(), X509_VERSION_3) != 1 ||
      ssl.ASN1_INTEGER_set_uint64(ssl.X509_get_serialNumber(made.get()), serial >> 1) != 1 ||
      ssl.X509_gmtime_adj(ssl.X509_getm_notBefore(made.get()), -kDay) == nullptr ||
      ssl.X509_gmtime_adj(ssl.X509_getm_notAfter(made.get()), kGoodFor) == nullptr ||
      !name(ssl, issuer.get(), "O", "dtrain job") || ssl.X509_set_issuer_name(made.get(), issuer.get()) != 1 ||
      ssl.X509_set_pubkey(made.get(), key) != 1)
    return failed(ssl);
  // No Common Name: etcd's gateway takes it for a user's.
  X509_NAME* subject = ssl.X509_get_subject_name(made.get());
  if (!name(ssl, subject, "O", authority ? "dtrain job" : "dtrain agent")) return failed(ssl);
  return made;
}

Result<Certificate> make_authority(const OpenSsl& ssl, const Key& key) {
  auto made = blank(ssl, key.get(), true);
  if (!made) return made;
  if (!extend(ssl, made->get(), NID_basic_constraints, "critical,CA:TRUE,pathlen:0") ||
      !extend(ssl, made->get(), NID_key_usage, "critical,keyCertSign") ||
      ssl.X509_sign(made->get(), key.get(), ssl.EVP_sha256()) == 0)
    return failed(ssl);
  return made;
}

// "DNS:n1,IP:10.0.0.1"
Result<std::string> alternatives(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    const bool address = is_numeric_address(name);
    if (address && name.find('%') != std::string::npos) continue;  // good on one interface only
    if (!address && !can_be_host_name(name)) return Error{ErrorKind::usage, "no certificate can name this host"};
    text += fmt::format("{}{}:{}", text.empty() ? "" : ",", address ? "IP" : "DNS", name);
  }
  return text;
}

template <class Object, class Write>
Result<std::string> pem(const OpenSsl& ssl, Object* object, Write write) {
  const std::shared_ptr<BIO> bio(ssl.BIO_new(ssl.BIO_s_mem()), ssl.BIO_free);
  if (!bio || write(bio.get(), object) != 1) return failed(ssl);
  char* text = nullptr;
  const long size = ssl.BIO_ctrl(bio.get(), BIO_CTRL_INFO, 0, static_cast<void*>(&text));
  return std::string(text, std::size_t(std::max(size, 0L)));
}

}  // namespace

Result<JobCertificate> issue_certificate(const JobSecret& secret, const std::string& job,
                                         const std::vector<std::string>& names) {
  auto loaded = openssl();
  if (!loaded) return loaded.error();
  const OpenSsl& ssl = **loaded;
  ssl.ERR_clear_error();
  auto scalar = secret.authority_key(job);
  if (!scalar) return scalar.error();
  auto authority_key = key_of_scalar(ssl, *scalar);
  if (!authority_key) return authority_key.error();
  auto authority = make_authority(ssl, *authority_key);
  if (!authority) return authority.error();
  const Key key(ssl.EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256"), ssl.EVP_PKEY_free);
  if (!key) return failed(ssl);
  auto certificate = blank(ssl, key.get(), false);
  if (!certificate) return certificate.error();
  auto also = alternatives(names);
  if (!also) return also.error();
  if (!extend(ssl, certificate->get(), NID_key_usage, "critical,digitalSignature") ||
      !extend(ssl, certificate->get(), NID_ext_key_usage, "serverAuth,clientAuth") ||
      (!also->empty() && !extend(ssl, certificate->get(), NID_subject_alt_name, *also)) ||
      ssl.X509_sign(certificate->get(), authority_key->get(), ssl.EVP_sha256()) == 0)
    return failed(ssl);
  const auto plain = [&](BIO* bio, EVP_PKEY* of) {
    return ssl.PEM_write_bio_PrivateKey(bio, of, nullptr, nullptr, 0, nullptr, nullptr);
  };
  auto texts = {pem(ssl, authority->get(), ssl.PEM_write_bio_X509),
                pem(ssl, certificate->get(), ssl.PEM_write_bio_X509), pem(ssl, key.get(), plain)};
  for (const auto& text : texts)
    if (!text) return text.error();
  return JobCertificate{**texts.begin(), **(texts.begin() + 1), **(texts.begin() + 2)};
}

}  // namespace dtrain
