#pragma once
// The secret that all agents of a job across hosts share, 256 random bits, and the keys made of it. It never goes over
// the network, into an argument or into a log; what is shown of it is the fingerprint.
#include <string>
#include <string_view>

#include "rendezvous/base/result.h"
#include "rendezvous/credentials/link_name.h"
#include "rendezvous/crypto/hkdf.h"
#include "rendezvous/crypto/secret_memory.h"

namespace dtrain {

using LinkKey = HkdfKey;

// Cheap to copy: copies share the memory, which no core dump contains.
class JobSecret {
 public:
  static Result<JobSecret> generate();
  // Takes a copy; wiping the original is the caller's.
  static Result<JobSecret> of(SecretSpan bytes);

  // The text form: `dtrain-` and 48 letters of base64url, the secret and a CRC-32 of it. Blanks around it are ignored.
  // No error repeats any of it.
  static Result<JobSecret> parse(std::string_view text);
  // From a regular file of this user that nobody else may read (0600, 0400).
  static Result<JobSecret> read(const std::string& path);
  // Into a new file of mode 0600; one that is there is an error.
  Result<void> write_new(const std::string& path) const;

  // The caller wipes it (wipe() of secret_memory.h) where it is not kept.
  std::string text() const;
  // Tells two secrets apart and says nothing else of them: 8 hexadecimal digits.
  Result<std::string> fingerprint() const;
  // A key for this one kind of connection; its job as an identity has it.
  Result<LinkKey> key_of(const LinkName& link) const;
  // The private key of the job's own authority for certificates (job_certificates.h): a scalar of P-256.
  Result<HkdfKey> authority_key(const std::string& job) const;
  // A job's name as an identity has it: itself, or where it is long or empty a hash of it.
  Result<std::string> identity_job(const std::string& job) const;

  bool operator==(const JobSecret& other) const;

 private:
  explicit JobSecret(SecretMemory memory) : memory_(std::move(memory)) {}
  Result<void> derive(std::string_view info, std::span<std::uint8_t> key) const;

  SecretMemory memory_;
};

}  // namespace dtrain
