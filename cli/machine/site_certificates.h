#pragma once
// --tls-ca, --tls-cert and --tls-key: certificates instead of a token.
#include <optional>
#include <string>

#include "cli/machine/host.h"

namespace dtrain::cli {

// Of these files: all three, or none of them is named. `rival`: what else the user has said that agents know each other
// by; empty: nothing.
Result<std::optional<SiteCertificates>> find_certificates(const Host& host, const SiteCertificates::Files& files,
                                                          const std::string& rival);

}  // namespace dtrain::cli
