#pragma once
// A job's secret on its way to one node, over a channel that others may read but not change, as that of an MPI
// launcher: the node makes a pair of keys and shows the public one, and the secret is sealed for it. X25519 (RFC 7748),
// a key by HKDF-SHA256 of what both have and of both public keys, AES-256-GCM; each pair of keys seals one secret for a
// node.
#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "rendezvous/base/result.h"
#include "rendezvous/credentials/job_secret.h"

namespace dtrain {

using PublicKey = std::array<std::uint8_t, 32>;

class SealingKeys {
 public:
  // Loads OpenSSL.
  static Result<SealingKeys> generate();

  const PublicKey& shown() const { return public_; }
  // Bytes that the owner of `reader` opens. `purpose`: both say the same, as the name of the job and of the node.
  Result<std::string> seal(const JobSecret& secret, const PublicKey& reader, const std::string& purpose) const;
  // What the owner of `maker` has sealed. Error: for another node or purpose, or changed.
  Result<JobSecret> open(const std::string& sealed, const PublicKey& maker, const std::string& purpose) const;

 private:
  struct Private;
  SealingKeys(std::shared_ptr<Private> own, const PublicKey& shown) : private_(std::move(own)), public_(shown) {}

  std::shared_ptr<Private> private_;
  PublicKey public_;
};

}  // namespace dtrain
