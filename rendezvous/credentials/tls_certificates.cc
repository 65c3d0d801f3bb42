#include "rendezvous/credentials/tls_certificates.h"

#include <fmt/format.h>

#include "rendezvous/base/printable.h"

namespace dtrain {
namespace {

Error unreadable(const OpenSsl& ssl, const char* what, const std::string& file) {
  return Error{ErrorKind::usage, fmt::format("{} {}: {}", what, printable(file), openssl_reason(ssl))};
}

// For a client that believes certificates, with none yet.
Result<std::shared_ptr<SSL_CTX>> make_client_context() {
  auto loaded = openssl();
  if (!loaded) return loaded.error();
  const OpenSsl& ssl = **loaded;
  std::shared_ptr<SSL_CTX> context(ssl.SSL_CTX_new(ssl.TLS_method()), ssl.SSL_CTX_free);
  ssl.ERR_clear_error();
  if (!context || ssl.SSL_CTX_ctrl(context.get(), SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, nullptr) != 1)
    return Error{ErrorKind::system, "this machine's OpenSSL lacks TLS 1.2"};
  ssl.SSL_CTX_ctrl(context.get(), SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, nullptr);
  refuse_passphrases(ssl, context.get());
  ssl.SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  return context;
}

}  // namespace

Result<TlsCertificates> TlsCertificates::load(const Files& files) {
  auto made = make_client_context();
  if (!made) return made.error();
  const OpenSsl& ssl = **openssl();
  const std::shared_ptr<SSL_CTX> context = *made;
  if (files.ca.empty() ? ssl.SSL_CTX_set_default_verify_paths(context.get()) != 1
                       : ssl.SSL_CTX_load_verify_locations(context.get(), files.ca.c_str(), nullptr) != 1)
    return unreadable(ssl, "the CA file", files.ca);
  if (files.certificate.empty()) return TlsCertificates(context);
  if (ssl.SSL_CTX_use_certificate_chain_file(context.get(), files.certificate.c_str()) != 1)
    return unreadable(ssl, "the certificate", files.certificate);
  const std::string& key = files.key.empty() ? files.certificate : files.key;
  if (ssl.SSL_CTX_use_PrivateKey_file(context.get(), key.c_str(), SSL_FILETYPE_PEM) != 1 ||
      ssl.SSL_CTX_check_private_key(context.get()) != 1)
    return unreadable(ssl, "the private key", key);
  return TlsCertificates(context);
}

Result<TlsCertificates> TlsCertificates::of(const JobCertificate& texts) {
  auto context = make_client_context();
  if (!context) return context.error();
  const OpenSsl& ssl = **openssl();
  const auto reader = [&](const std::string& text) {
    return std::shared_ptr<BIO>(ssl.BIO_new_mem_buf(text.data(), int(text.size())), ssl.BIO_free);
  };
  const auto certificate_in = [&](const std::string& text) {
    return std::shared_ptr<X509>(ssl.PEM_read_bio_X509(reader(text).get(), nullptr, nullptr, nullptr), ssl.X509_free);
  };
  const auto authority = certificate_in(texts.authority), own = certificate_in(texts.certificate);
  const std::shared_ptr<EVP_PKEY> key(ssl.PEM_read_bio_PrivateKey(reader(texts.key).get(), nullptr, nullptr, nullptr),
                                      ssl.EVP_PKEY_free);
  if (!authority || !own || !key ||
      ssl.X509_STORE_add_cert(ssl.SSL_CTX_get_cert_store(context->get()), authority.get()) != 1 ||
      ssl.SSL_CTX_use_certificate(context->get(), own.get()) != 1 ||
      ssl.SSL_CTX_use_PrivateKey(context->get(), key.get()) != 1)
    return Error{ErrorKind::system, "OpenSSL does not take the job's own certificate"};
  return TlsCertificates(*context);
}

}  // namespace dtrain
