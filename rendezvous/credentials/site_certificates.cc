#include "rendezvous/credentials/site_certificates.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "rendezvous/base/printable.h"
#include "rendezvous/credentials/private_file.h"
#include "rendezvous/credentials/tls_context.h"

namespace dtrain {
namespace {

Error bad(const char* what, const std::string& file, const std::string& why) {
  return {ErrorKind::usage, fmt::format("{} {}: {}", what, printable(file), why)};
}

// OpenSSL would wait where a FIFO lies.
Result<void> check_regular(const char* what, const std::string& file) {
  struct stat facts = {};
  if (::stat(file.c_str(), &facts) != 0) return bad(what, file, std::strerror(errno));
  if (!S_ISREG(facts.st_mode)) return bad(what, file, "not a regular file");
  return {};
}

Result<void> load_authority(const OpenSsl& ssl, SSL_CTX* context, const std::string& file) {
  if (auto regular = check_regular("the CA file", file); !regular) return regular;
  ssl.ERR_clear_error();
  if (ssl.SSL_CTX_load_verify_locations(context, file.c_str(), nullptr) != 1)
    return bad("the CA file", file, fmt::format("no certificates in PEM form ({})", openssl_reason(ssl)));
  // What is in the file is believed, and nothing above it: it may be an authority below another.
  ssl.X509_STORE_set_flags(ssl.SSL_CTX_get_cert_store(context), X509_V_FLAG_PARTIAL_CHAIN);
  return {};
}

Result<void> load_own(const OpenSsl& ssl, SSL_CTX* context, const SiteCertificates::Files& files) {
  auto key = open_private_file(files.key);
  if (!key) return bad("the private key", files.key, key.error().message);
  ssl.ERR_clear_error();
  const std::string opened = fmt::format("/proc/self/fd/{}", key->get());  // the file that was judged
  if (ssl.SSL_CTX_use_PrivateKey_file(context, opened.c_str(), SSL_FILETYPE_PEM) != 1)
    return bad("the private key", files.key,
               fmt::format("no private key in PEM form without a passphrase ({})", openssl_reason(ssl)));
  if (auto regular = check_regular("the certificate", files.certificate); !regular) return regular;
  ssl.ERR_clear_error();
  if (ssl.SSL_CTX_use_certificate_chain_file(context, files.certificate.c_str()) != 1)
    return bad("the certificate", files.certificate,
               fmt::format("no usable certificate in PEM form ({})", openssl_reason(ssl)));
  if (ssl.SSL_CTX_check_private_key(context) != 1)
    return bad("the private key", files.key,
               fmt::format("does not belong to the certificate {}", printable(files.certificate)));
  return {};
}

// What a peer would say of this node's certificate; empty: that it is good.
std::string fault_of_own(const OpenSsl& ssl, SSL_CTX* context, const char* purpose) {
  STACK_OF(X509)* between = nullptr;
  ssl.SSL_CTX_ctrl(context, SSL_CTRL_GET_CHAIN_CERTS, 0, &between);
  const std::shared_ptr<X509_STORE_CTX> judge(ssl.X509_STORE_CTX_new(), ssl.X509_STORE_CTX_free);
  if (!judge ||
      ssl.X509_STORE_CTX_init(judge.get(), ssl.SSL_CTX_get_cert_store(context), ssl.SSL_CTX_get0_certificate(context),
                              between) != 1 ||
      ssl.X509_STORE_CTX_set_default(judge.get(), purpose) != 1)
    return "OpenSSL cannot judge it";
  if (ssl.X509_verify_cert(judge.get()) == 1) return "";
  return ssl.X509_verify_cert_error_string(ssl.X509_STORE_CTX_get_error(judge.get()));
}

}  // namespace

Result<SiteCertificates> SiteCertificates::load(const Files& files) {
  auto loaded = openssl();
  if (!loaded) return loaded.error();
  const OpenSsl& ssl = **loaded;
  auto context = make_site_context(ssl);
  if (!context) return context.error();
  if (auto done = load_authority(ssl, context->get(), files.ca); !done) return done.error();
  if (auto done = load_own(ssl, context->get(), files); !done) return done.error();
  // Each agent is a server to some and a client to others.
  for (const char* purpose : {"ssl_server", "ssl_client"})
    if (const std::string fault = fault_of_own(ssl, context->get(), purpose); !fault.empty())
      return bad("the certificate", files.certificate,
                 fmt::format("{} (judged by the CA file {})", fault, printable(files.ca)));
  return SiteCertificates(std::move(*context), files.ca);
}

}  // namespace dtrain
