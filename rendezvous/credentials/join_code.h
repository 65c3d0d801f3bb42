#pragma once
// A token that can be read out and typed: twenty letters and digits, of which 85 random bits make the job's secret and
// fifteen find typing mistakes. Who listens on the network can only try codes, each of which costs him a million rounds
// of HMAC-SHA256 (PBKDF2, RFC 8018).
#include <string>
#include <string_view>

#include "rendezvous/base/result.h"
#include "rendezvous/credentials/job_secret.h"

namespace dtrain {

// "7Q2MX-0KD4R-9TGVA-C3HNE". The caller wipes it.
Result<std::string> make_join_code();

// Upper or lower case, with blanks and dashes or without; O is read as 0, I and L as 1. Takes half a second. Errors: a
// code that was mistyped; none repeats any of it.
Result<JobSecret> secret_of_join_code(std::string_view code);

}  // namespace dtrain
