#include "cli/commands/serve.h"

#include <fmt/format.h>

#include <optional>

#include "cli/base/fail.h"
#include "cli/base/parse_value.h"
#include "cli/base/usage_error.h"
#include "cli/machine/host.h"
#include "cli/machine/site_certificates.h"
#include "cli/machine/user_token.h"
#include "cli/nodes/nodes.h"
#include "cli/parse/command_words.h"
#include "launcher/service/job_service.h"

namespace dtrain::cli {
namespace {

using Flags = std::map<std::string, std::string>;

std::string value(const Flags& flags, const char* name) {
  const auto found = flags.find(name);
  return found == flags.end() ? "" : found->second;
}

Result<int> number_flag(const Flags& flags, const char* name, std::size_t otherwise, int lowest, int highest) {
  if (!flags.contains(name)) return static_cast<int>(otherwise);
  auto parsed = parse_number(value(flags, name), lowest, highest);
  if (!parsed) return parsed.error().in(fmt::format("--{}", name));
  return parsed;
}

Result<std::string> listening_address(const std::string& typed, const Host& host) {
  if (typed == "::" || typed == "0.0.0.0") return typed;
  return host.own_address(typed);
}

Result<std::optional<launcher::OpenStore>> open_store(const Flags& flags, const Host& host) {
  const std::string typed = value(flags, "open-store");
  if (typed.empty()) return std::optional<launcher::OpenStore>();
  const auto endpoint = parse_endpoint(typed);
  if (!endpoint) return endpoint.error().in("--open-store");
  if (endpoint->host.empty() || !endpoint->port) return usage_error("--open-store needs ADDR:PORT");
  auto address = listening_address(endpoint->host, host);
  if (!address) return address.error().in("--open-store");
  return std::optional(launcher::OpenStore{*address, static_cast<std::uint16_t>(*endpoint->port)});
}

Result<JobServerLimits> limits(const Flags& flags) {
  JobServerLimits limits;
  const auto jobs = number_flag(flags, "max-jobs", limits.jobs, 1, 100000);
  if (!jobs) return jobs.error();
  const auto nodes = number_flag(flags, "max-nodes", limits.nodes, 1, 1000000);
  if (!nodes) return nodes.error();
  const auto store = number_flag(flags, "max-store-mib", limits.store.core.bytes >> 20, 1, 1 << 20);
  if (!store) return store.error();
  const auto keys = number_flag(flags, "max-store-keys", limits.store.core.keys, 1, 1000000000);
  if (!keys) return keys.error();
  limits.store.core.keys = static_cast<std::size_t>(*keys);
  limits.jobs = static_cast<std::size_t>(*jobs);
  limits.nodes = static_cast<std::size_t>(*nodes);
  limits.store.core.bytes = static_cast<std::size_t>(*store) << 20;
  return limits;
}

Result<LinkCredential> credential(const Flags& flags, const Host& host) {
  const auto file = [&](const char* flag, const char* variable) {
    const std::string typed = value(flags, flag);
    return typed.empty() ? host.variable(variable) : typed;
  };
  std::string rival;
  if (!host.variable("DTRAIN_TOKEN_FILE").empty()) rival = "DTRAIN_TOKEN_FILE";
  if (host.token) rival = "DTRAIN_TOKEN";
  if (!value(flags, "token-file").empty()) rival = "--token-file";
  auto certificates = find_certificates(
      host, {file("tls-ca", "DTRAIN_TLS_CA"), file("tls-cert", "DTRAIN_TLS_CERT"), file("tls-key", "DTRAIN_TLS_KEY")},
      rival);
  if (!certificates) return certificates.error();
  if (*certificates) return LinkCredential(**certificates);
  auto secret = find_token(host, value(flags, "token-file"));
  return secret ? Result<LinkCredential>(*secret) : secret.error();
}

Result<launcher::ServiceSpec> resolve(const std::vector<std::string>& words, const Host& host) {
  if (words.empty() || words[0] != "serve") return usage_error("dtrain rendezvous serve starts a server; see --help");
  auto flags = command_words(CommandId::rendezvous, {words.begin() + 1, words.end()});
  if (!flags) return flags.error();
  const auto port = number_flag(*flags, "port", launcher::ServiceSpec::kUsualPort, 0, 65535);
  if (!port) return port.error();
  auto allowed = limits(*flags);
  if (!allowed) return allowed.error();
  auto address = listening_address(flags->contains("bind") ? value(*flags, "bind") : "::", host);
  if (!address) return address.error().in("--bind");
  auto open = open_store(*flags, host);
  if (!open) return open.error();
  auto shown = credential(*flags, host);
  if (!shown) return shown.error();
  return launcher::ServiceSpec{*address, static_cast<std::uint16_t>(*port), *shown, *allowed, *open};
}

}  // namespace

int rendezvous_command(const std::vector<std::string>& words) {
  auto spec = resolve(words, this_host());
  if (!spec) return fail(spec.error());
  auto code = launcher::run_service(*spec);
  return code ? *code : fail(code.error());
}

}  // namespace dtrain::cli
