#pragma once
// Certificates of a site's authority, by which the agents of a job know each other where they have no token
// (docs/adr/0513-site-certificates.md). Agents are equal: whoever has one of that authority's may join, whatever name
// is in it.
#include <memory>
#include <string>

#include "rendezvous/base/result.h"

struct ssl_ctx_st;  // OpenSSL's SSL_CTX

namespace dtrain {

// Copies share it.
class SiteCertificates {
 public:
  // Names of PEM files. Whoever has a certificate of `ca`, or of an authority below it, is a peer; the machine's own
  // list of authorities counts for nothing.
  struct Files {
    std::string ca;
    std::string certificate;  // this node's; authorities between it and `ca` may follow in it
    std::string key;          // of that: a regular file of this user that nobody else may read
  };
  // Reads them now, and judges this node's certificate as a peer would. An error names the file and what is wrong.
  static Result<SiteCertificates> load(const Files& files);

  ssl_ctx_st* context() const { return context_.get(); }
  const std::string& ca() const { return ca_; }  // the file's name

 private:
  SiteCertificates(std::shared_ptr<ssl_ctx_st> context, std::string ca)
      : context_(std::move(context)), ca_(std::move(ca)) {}
  std::shared_ptr<ssl_ctx_st> context_;
  std::string ca_;
};

}  // namespace dtrain
