// What the agents of a job across hosts know each other by. A job on one host needs none, and none is looked for.
#include <fmt/format.h>

#include "cli/resolve_parts.h"
#include "cli/take.h"
#include "cli/token.h"
#include "cli/usage.h"

namespace dtrain::cli {
namespace {

Error none_found(const Host& host) {
  const std::string usual = usual_token_file(host);
  return usage(fmt::format(
      "a job across hosts needs a token that all its nodes share: `dtrain token --new` makes {}; copy it to every "
      "node, "
      "or name a file with --token-file (--insecure goes without, for networks where everybody may run your job)",
      usual.empty() ? "one" : usual));
}

// A token typed where a file belongs is in the shell's history by now, but need not get into logs as well.
Result<JobSecret> of_file(const Given& given, const std::string& path) {
  if (JobSecret::parse(path))
    return usage(
        "--token-file takes the name of a file, not the token itself, which others can see now: make a new one");
  return given.host.read_token(path);
}

// First found wins: --token-file, DTRAIN_TOKEN, DTRAIN_TOKEN_FILE, the usual file.
Result<JobSecret> found(const Given& given) {
  const RawValue& file = given.options[FlagId::token_file];
  if (file.origin == Origin::flag) return of_file(given, file.text);
  if (given.host.token)
    return given.host.token->ok() ? *given.host.token : given.host.token->error().in("DTRAIN_TOKEN");
  if (file.origin == Origin::environment) return of_file(given, file.text);
  const std::string usual = usual_token_file(given.host);
  if (usual.empty() || given.host.probe(usual).kind == FileFacts::Kind::missing) return none_found(given.host);
  return of_file(given, usual);
}

}  // namespace

Result<void> resolve_secret(const Given& given, Plan& plan) {
  auto& nodes = plan.spec.nodes;
  if (auto done = take_switch(given.options, FlagId::insecure, nodes.insecure); !done) return done;
  if (!nodes.across_hosts) {
    nodes.insecure = false;
    return {};
  }
  if (nodes.insecure) {
    plan.warnings.push_back(
        "--insecure: whoever reaches this job's port can join the job, read and change its data, and run its program");
    return {};
  }
  auto secret = found(given);
  if (!secret) return secret.error();
  nodes.secret = *secret;
  return {};
}

}  // namespace dtrain::cli
