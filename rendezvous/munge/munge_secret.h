#pragma once
// How a job's secret gets from one node to another where MUNGE runs, as on most SLURM clusters: sealed in a credential
// that only the munged of this cluster can open, and only for the user who made it. So it may cross the network in
// clear, to whoever asks.
//
// The exchange: whoever wants the secret connects and sends kMungeRequest, 8 bytes and nothing else; the answer is a
// credential of at most kLongestCredential bytes, then end-of-file. Every answer is a fresh credential: munged opens
// each only once, and for some minutes.
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "rendezvous/base/result.h"
#include "rendezvous/credentials/job_secret.h"

namespace dtrain {

// Neither TLS (0x16), nor torch's store (0), nor an agent's greeting (0xD7), nor a store link (0xD8) begins like this.
// The last byte: version.
inline constexpr std::array<std::uint8_t, 8> kMungeRequest = {0xD9, 'm', 'u', 'n', 'g', 'e', '\n', 1};
inline constexpr std::size_t kLongestCredential = 4096;

class Munge {
 public:
  // Loads libmunge.so.2. `socket`: munged's; empty: the one that libmunge knows. Error: no such library. That munged
  // runs shows in seal() and open().
  static Result<Munge> load(std::string socket = {});
  // Whether a munged listens; asks it nothing.
  Result<void> reach() const;

  // A credential that holds the secret for this job, to be opened by this process's user. Asks munged, as open() does:
  // a millisecond, or some seconds where it does not run.
  Result<std::string> seal(const JobSecret& secret, std::string_view job) const;

  // The secret in a credential that another agent has made. Error: not made by this user, not for this user alone, not
  // encrypted, for another job, too old, opened before, or made elsewhere.
  Result<JobSecret> open(const std::string& credential, std::string_view job) const;

 private:
  struct Library;
  class Context;
  Munge(std::shared_ptr<const Library> library, std::string socket)
      : library_(std::move(library)), socket_(std::move(socket)) {}

  std::shared_ptr<const Library> library_;
  std::string socket_;
};

}  // namespace dtrain
