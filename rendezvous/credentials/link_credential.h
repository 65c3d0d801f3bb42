#pragma once
// What the agents of a job across hosts know each other by: the job's token, or certificates of a site's authority.
#include <string>
#include <variant>

#include "rendezvous/base/result.h"
#include "rendezvous/credentials/job_secret.h"
#include "rendezvous/credentials/site_certificates.h"

namespace dtrain {

// Cheap to copy.
class LinkCredential {
 public:
  LinkCredential(JobSecret secret) : one_(std::move(secret)) {}
  LinkCredential(SiteCertificates certificates) : one_(std::move(certificates)) {}

  // Null: it is the other.
  const JobSecret* secret() const { return std::get_if<JobSecret>(&one_); }
  const SiteCertificates* certificates() const { return std::get_if<SiteCertificates>(&one_); }

  // A job's name as it stands in the first words of a link: itself, or where it is long or empty a hash of it.
  Result<std::string> identity_job(const std::string& job) const;
  // For people: "token with the fingerprint 1a2b3c4d", "certificates of ca.pem".
  Result<std::string> shown() const;

 private:
  std::variant<JobSecret, SiteCertificates> one_;
};

}  // namespace dtrain
