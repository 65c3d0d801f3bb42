#pragma once
// What all TLS sessions of a process share: the settings of the protocol, and the pair of BIOs through which OpenSSL
// reads and writes a session's own strings.
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "rendezvous/job_certificates.h"
#include "rendezvous/openssl.h"
#include "rendezvous/secret_memory.h"

namespace dtrain {

// The bytes between OpenSSL and the peer.
struct TlsBytes {
  std::string_view input;  // the peer's, not yet read by OpenSSL
  std::size_t allowance;   // how much more of them it may read
  std::string output;      // for the peer
};

// What the callbacks of the handshake ask. Set as ex data 0 of each SSL.
class TlsKeys {
 public:
  virtual ~TlsKeys() = default;
  // The client's identity, and its key in `key`; false if there is none.
  virtual bool own_identity(std::string_view& identity, SecretSpan& key) = 0;
  // The key of the identity that a client sent, in `key`; false refuses it.
  virtual bool key_of(std::string_view identity, SecretSpan& key) = 0;
  // A client has come without a key, but names a link as those with certificates do; false refuses it.
  virtual bool without_key() = 0;
  // The same with certificates: the name of the link; false refuses it. It is taken as it is.
  virtual bool take_name(std::string_view name) = 0;
};

// For links with a token. Any thread.
Result<SSL_CTX*> tls_context(const OpenSsl& ssl);
// For links with certificates of a site, none of which it has yet.
Result<std::shared_ptr<SSL_CTX>> make_site_context(const OpenSsl& ssl);

// How an error of OpenSSL's is called.
std::string openssl_reason(const OpenSsl& ssl);

// Whose certificate a TLS client believes, and its own, for servers that ask for one. Copies share it.
class TlsCertificates {
 public:
  // Names of PEM files. Without `ca` the machine's own list of authorities; without `certificate` none is shown.
  struct Files {
    std::string ca, certificate, key;
  };
  // Reads them now; an error names the file.
  static Result<TlsCertificates> load(const Files& files);
  static Result<TlsCertificates> of(const JobCertificate& texts);
  SSL_CTX* context() const { return context_.get(); }

 private:
  explicit TlsCertificates(std::shared_ptr<SSL_CTX> context) : context_(std::move(context)) {}
  std::shared_ptr<SSL_CTX> context_;
};

// A BIO on `bytes`, which must outlive it; nullptr if there is no memory.
BIO* tls_bio(const OpenSsl& ssl, TlsBytes& bytes);

}  // namespace dtrain
