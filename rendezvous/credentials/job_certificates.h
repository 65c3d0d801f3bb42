#pragma once
// Certificates that only who has the job's secret can make, for programs of the job that know each other by nothing
// else. The authority is a P-256 key derived of the secret and the job's name: every agent makes it for itself, it is
// never sent or stored. Each certificate has a new key.
#include <string>
#include <vector>

#include "rendezvous/base/result.h"
#include "rendezvous/credentials/job_secret.h"

namespace dtrain {

// PEM. `key` is the private key of `certificate`.
struct JobCertificate {
  std::string authority, certificate, key;
};

// For a server or a client; `names`: the host names and numeric addresses that it is good for, none for a client alone.
// Good for a year, from a day ago on as clocks differ.
Result<JobCertificate> issue_certificate(const JobSecret& secret, const std::string& job,
                                         const std::vector<std::string>& names);

}  // namespace dtrain
