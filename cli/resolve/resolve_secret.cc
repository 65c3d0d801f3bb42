// What the agents of a job across hosts know each other by. A job on one host needs none, and none is looked for.
#include <fmt/format.h>

#include "cli/base/usage_error.h"
#include "cli/engines/mpi.h"
#include "cli/engines/slurm.h"
#include "cli/machine/site_certificates.h"
#include "cli/machine/user_token.h"
#include "cli/options/take_value.h"
#include "cli/resolve/resolve_parts.h"

namespace dtrain::cli {
namespace {

// Where SLURM says which nodes form the job, all of them have its munged.
bool slurm_has_said(const Given& given) { return given.options[FlagId::rdzv_endpoint].where == kSlurmNodes; }

Result<std::optional<SiteCertificates>> site_certificates(const Given& given, bool insecure) {
  const auto& options = given.options;
  const SiteCertificates::Files files{options.text(FlagId::tls_ca), options.text(FlagId::tls_cert),
                                      options.text(FlagId::tls_key)};
  std::string rival;
  if (insecure) rival = "--insecure";
  if (given.host.token) rival = "DTRAIN_TOKEN";
  if (const RawValue& file = options[FlagId::token_file]; !file.text.empty()) rival = file.where;
  return find_certificates(given.host, files, rival);
}

Error none_found(const Given& given) {
  const std::string usual = usual_token_file(given.host);
  if (slurm_has_said(given))
    if (const auto munge = given.host.munge(); !munge)
      return usage_error(
          fmt::format("a step over several hosts needs MUNGE or a token that all its nodes share. {}. For a "
                      "token: `dtrain token --new`, and --token-file",
                      munge.error().message));
  return usage_error(
      fmt::format("a job across hosts needs a token that all its nodes share: `dtrain token --new` makes {}; copy it "
                  "to every node, or name a file with --token-file (--insecure needs no token, for networks where "
                  "everybody may run your job)",
                  usual.empty() ? "one" : usual));
}

// A token typed where a file belongs is in the shell's history by now, but need not get into logs as well.
Result<JobSecret> of_file(const Given& given, const std::string& path) {
  if (JobSecret::parse(path)) return token_as_file();
  return given.host.read_token(path);
}

// The node that hosts the job makes a secret, the others ask it.
Result<void> share_by_munge(const Given& given, launcher::NodesSpec& nodes) {
  nodes.munge_socket = munge_socket(given.host);
  if (nodes.address.empty()) return {};
  auto secret = given.host.new_token();
  if (!secret) return secret.error();
  nodes.credential = *secret;
  return {};
}

// First found wins: --token-file, DTRAIN_TOKEN, DTRAIN_TOKEN_FILE, the config file; after MUNGE: the usual file.
// Nothing: MUNGE has it. A job's own etcd is there before anybody could be asked.
Result<std::optional<JobSecret>> found(const Given& given, bool own_etcd) {
  const RawValue& file = given.options[FlagId::token_file];
  auto must = [](const Result<JobSecret>& secret) -> Result<std::optional<JobSecret>> {
    if (!secret) return secret.error();
    return std::optional(*secret);
  };
  if (file.origin == Origin::flag) return must(of_file(given, file.text));
  if (given.host.token)
    return must(given.host.token->ok() ? *given.host.token
                                       : Result<JobSecret>(given.host.token->error().in("DTRAIN_TOKEN")));
  if (file.origin != Origin::fallback) return must(of_file(given, file.text));
  // Before a file of the user's that may be on some of the nodes only.
  if (mpi_has_said(given.host, given.options)) return given.host.mpi->meeting->secret;
  if (slurm_has_said(given) && !own_etcd && given.host.munge()) return std::optional<JobSecret>();
  const std::string usual = usual_token_file(given.host);
  if (usual.empty() || given.host.probe(usual).kind == FileFacts::Kind::missing) return none_found(given);
  return must(of_file(given, usual));
}

}  // namespace

Result<void> resolve_secret(const Given& given, Plan& plan) {
  auto& nodes = plan.spec.nodes;
  if (auto done = take_switch(given.options, FlagId::insecure, nodes.insecure); !done) return done;
  if (!nodes.across_hosts) {
    nodes.insecure = false;
    return {};
  }
  if (!given.host.variable("DTRAIN_INSECURE").empty())
    return usage_error("DTRAIN_INSECURE is not allowed: to run a job without a token, type --insecure");
  const bool own_etcd = nodes.etcd && nodes.etcd->own;
  if (own_etcd) nodes.etcd->https = !nodes.insecure;
  auto certificates = site_certificates(given, nodes.insecure);
  if (!certificates) return certificates.error();
  if (*certificates && own_etcd)
    return usage_error(
        "--ha makes its certificates from the job's token, so it does not work with --tls-ca; use an etcd of your own");
  if (*certificates) {
    nodes.credential = **certificates;
    return {};
  }
  if (nodes.insecure) {
    plan.warnings.push_back(
        "--insecure: anybody who reaches this job's port can join the job, read and change its data, and run its "
        "program");
    return {};
  }
  auto secret = found(given, own_etcd);
  if (!secret) return secret.error();
  nodes.credential = *secret;
  if (!nodes.credential) return share_by_munge(given, nodes);
  return {};
}

}  // namespace dtrain::cli
