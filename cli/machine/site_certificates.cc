#include "cli/machine/site_certificates.h"

#include <fmt/format.h>

#include <vector>

#include "cli/base/text.h"
#include "cli/base/usage_error.h"

namespace dtrain::cli {

Result<std::optional<SiteCertificates>> find_certificates(const Host& host, const SiteCertificates::Files& files,
                                                          const std::string& rival) {
  std::vector<std::string> there, missing;
  (files.ca.empty() ? missing : there).emplace_back("--tls-ca");
  (files.certificate.empty() ? missing : there).emplace_back("--tls-cert");
  (files.key.empty() ? missing : there).emplace_back("--tls-key");
  if (there.empty()) return std::optional<SiteCertificates>();
  if (!missing.empty())
    return usage_error(fmt::format("{} without {}: certificates need all three files", fmt::join(there, " and "),
                                   fmt::join(missing, " and ")));
  if (!rival.empty()) return usage_error(fmt::format("{} and {}: use only one of the two", there.front(), rival));
  auto loaded = host.read_certificates(files);
  if (!loaded) return loaded.error();
  return std::optional(*loaded);
}

}  // namespace dtrain::cli
