// `dtrain doctor`: the SLURM step or allocation that it runs in, if any.
#include <fmt/format.h>

#include "cli/base/text.h"
#include "cli/doctor/doctor.h"
#include "cli/machine/host.h"
#include "cli/machine/user_token.h"
#include "launcher/engines/slurm_plan.h"
#include "rendezvous/munge/munge_secret.h"
#include "rendezvous/net/listen.h"

namespace dtrain::cli {
namespace {

using Level = Finding::Level;

// Whether munged makes and opens a credential for this user.
Result<void> try_munge(const Host& host) {
  auto munge = Munge::load(munge_socket(host));
  if (!munge) return munge.error();
  auto secret = JobSecret::generate();
  if (!secret) return secret.error();
  auto credential = munge->seal(*secret, "doctor");
  if (!credential) return credential.error();
  if (auto opened = munge->open(*credential, "doctor"); !opened) return opened.error();
  return {};
}

std::string step_text(const launcher::SlurmStep& step, const Host& host) {
  if (step.nodes == 1) return fmt::format("step {} of one node", step.id);
  return fmt::format("step {}, node {} of {}, meeting at {}", step.id, step.node_rank, step.nodes,
                     address_text(host.slurm_address(step.host), step.port));
}

// What counts in a step, without flags (resolve_secret.cc).
std::string token_source(const Host& host, bool munge_works) {
  if (host.token) return "DTRAIN_TOKEN";
  if (!host.variable("DTRAIN_TOKEN_FILE").empty()) return "DTRAIN_TOKEN_FILE";
  const std::string usual = usual_token_file(host);
  return !munge_works && host.probe(usual).kind != FileFacts::Kind::missing ? usual : "";
}

}  // namespace

Findings judge_slurm(const std::map<std::string, std::string>& env, const std::string& step, const std::string& token,
                     const Result<void>& munge) {
  auto variable = [&](const char* name) {
    auto it = env.find(name);
    return it == env.end() ? std::string() : it->second;
  };
  Finding finding{Level::ok, "SLURM", step, ""};
  if (step.empty())
    finding.detail = fmt::format("allocation {} of {} nodes, not in a step: `srun dtrain run` makes them one job",
                                 printable(variable("SLURM_JOB_ID")), printable(variable("SLURM_JOB_NUM_NODES")));
  if (munge) {
    finding.detail += "; MUNGE works";
  } else {
    finding.detail += "; " + munge.error().message;
  }
  if (!token.empty()) {
    finding.detail += ", and nodes know each other by " + token;
  } else if (munge) {
    finding.detail += ", and nodes know each other by a secret that it carries";
  } else {
    finding.level = Level::warn;
    finding.cure = "nodes on different hosts cannot share a secret by MUNGE: give them --token-file";
  }
  return {finding};
}

Findings check_slurm() {
  const Host host = this_host();
  if (host.variable("SLURM_JOB_ID").empty()) return {};
  auto step = launcher::slurm_step(host.env);
  if (!step) return {{Level::fail, "SLURM", step.error().message, ""}};
  const auto munge = try_munge(host);
  return judge_slurm(host.env, *step ? step_text(**step, host) : "", token_source(host, munge.ok()), munge);
}

}  // namespace dtrain::cli
