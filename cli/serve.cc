#include "cli/serve.h"

#include <fmt/format.h>

#include <cstdio>

#include "cli/command_words.h"
#include "cli/host.h"
#include "cli/text.h"
#include "cli/token.h"
#include "cli/usage.h"
#include "cli/values.h"
#include "launcher/exit_codes.h"
#include "launcher/job_service.h"

namespace dtrain::cli {
namespace {

using Flags = std::map<std::string, std::string>;

std::string value(const Flags& flags, const char* name, const char* otherwise = "") {
  const auto found = flags.find(name);
  return found == flags.end() ? otherwise : found->second;
}

Result<int> number(const Flags& flags, const char* name, const char* otherwise, int lowest, int highest) {
  auto parsed = parse_number(value(flags, name, otherwise), lowest, highest);
  if (!parsed) return parsed.error().in(fmt::format("--{}", name));
  return parsed;
}

Result<std::string> listening_address(const Flags& flags, const Host& host) {
  const std::string typed = value(flags, "bind", "::");
  if (typed == "::" || typed == "0.0.0.0") return typed;
  auto address = host.own_address(typed);
  return address ? address : Result<std::string>(address.error().in("--bind"));
}

Result<JobServerLimits> limits(const Flags& flags) {
  JobServerLimits limits;
  const auto jobs = number(flags, "max-jobs", "256", 1, 100000);
  if (!jobs) return jobs.error();
  const auto nodes = number(flags, "max-nodes", "16384", 1, 1000000);
  if (!nodes) return nodes.error();
  const auto store = number(flags, "max-store-mib", "1024", 1, 1 << 20);
  if (!store) return store.error();
  limits.jobs = static_cast<std::size_t>(*jobs);
  limits.nodes = static_cast<std::size_t>(*nodes);
  limits.store.core.bytes = static_cast<std::size_t>(*store) << 20;
  return limits;
}

Result<launcher::ServiceSpec> resolve(const std::vector<std::string>& words, const Host& host) {
  if (words.empty() || words[0] != "serve") return usage("dtrain rendezvous serve starts a server; see --help");
  auto flags = command_words(CommandId::rendezvous, {words.begin() + 1, words.end()});
  if (!flags) return flags.error();
  const auto port = number(*flags, "port", "29400", 0, 65535);
  if (!port) return port.error();
  auto allowed = limits(*flags);
  if (!allowed) return allowed.error();
  auto address = listening_address(*flags, host);
  if (!address) return address.error();
  auto secret = find_token(host, value(*flags, "token-file"));
  if (!secret) return secret.error();
  return launcher::ServiceSpec{*address, static_cast<std::uint16_t>(*port), *secret, *allowed};
}

int fail(const Error& error) {
  std::fprintf(stderr, "dtrain: %s\n", printable(error.message, 1000).c_str());
  return error.kind == ErrorKind::usage ? launcher::kExitUsage : launcher::kExitOwnFailure;
}

}  // namespace

int rendezvous_command(const std::vector<std::string>& words) {
  auto spec = resolve(words, this_host());
  if (!spec) return fail(spec.error());
  auto code = launcher::run_service(*spec);
  return code ? *code : fail(code.error());
}

}  // namespace dtrain::cli
