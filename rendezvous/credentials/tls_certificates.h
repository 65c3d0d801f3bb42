#pragma once
// The certificates by which a TLS client and a server that is not an agent (etcd) know each other.
#include <memory>
#include <string>
#include <utility>

#include "rendezvous/base/result.h"
#include "rendezvous/credentials/job_certificates.h"
#include "rendezvous/crypto/openssl.h"

namespace dtrain {

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

}  // namespace dtrain
