#include "rendezvous/credentials/link_credential.h"

#include "rendezvous/base/printable.h"

namespace dtrain {

Result<std::string> LinkCredential::identity_job(const std::string& job) const {
  if (secret() != nullptr) return secret()->identity_job(job);
  if (stands_for_itself(job)) return job;
  constexpr std::uint8_t kSalt[] = {'j', 'o', 'b'};
  auto digest = hkdf_extract(kSalt, {reinterpret_cast<const std::uint8_t*>(job.data()), job.size()});
  if (!digest) return digest.error();
  return hashed_job(*digest);
}

Result<std::string> LinkCredential::shown() const {
  if (secret() == nullptr) return "certificates of " + printable(certificates()->ca());
  auto fingerprint = secret()->fingerprint();
  return fingerprint ? Result<std::string>("token with the fingerprint " + *fingerprint) : fingerprint;
}

}  // namespace dtrain
