#include "launcher/agent/run_job.h"

#include <sys/prctl.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>

#include "launcher/agent/agent.h"
#include "launcher/base/inherited.h"
#include "launcher/base/private_folder.h"
#include "launcher/front/front.h"
#include "launcher/job/exit_codes.h"
#include "rendezvous/base/printable.h"

namespace dtrain::launcher {

int run_job(const JobSpec& spec) {
  // Neither workers nor other processes of this user are to read the token out of memory (docs/security.md).
  if (spec.nodes.across_hosts) ::prctl(PR_SET_DUMPABLE, 0);
  JobSpec effective = spec;
  effective.stop_signals = not_ignored(spec.stop_signals);
  effective.passed_signals = not_ignored(spec.passed_signals);
  const auto agent_main = [](FrontSide side, void* context) {
    return run_agent(*static_cast<const JobSpec*>(context), std::move(side));
  };
  std::optional<AttachedTerminal> terminal;
  if (spec.attach) terminal.emplace();
  FrontSignals signals{effective.stop_signals, effective.passed_signals};
  signals.ends_with = spec.ends_with;
  signals.started_from = spec.started_from;
  signals.orders = spec.orders;
  signals.only_orders = spec.only_orders;
  signals.lead = spec.lead;
  signals.planned = spec.planned_signals;
  if (spec.nodes.across_hosts)
    signals.stopped_lease = std::min(signals.stopped_lease, spec.nodes.pulse.stopped_lease());
  std::optional<PrivateFolder> folder;  // outlives the agent, however that ends
  if (auto& etcd = effective.nodes.etcd; etcd && etcd->own && etcd->own->self >= 0) {
    auto made = PrivateFolder::make("etcd");
    if (!made) {
      std::fprintf(stderr, "dtrain: %s%s\n", spec.lead.c_str(), printable(made.error().message, 1000).c_str());
      return kExitOwnFailure;
    }
    etcd->own->folder = made->path();
    folder = std::move(*made);
  }
  const int code = run_front(signals, terminal ? &*terminal : nullptr, agent_main, &effective);
  if (folder) folder->remove();
  return code;
}

}  // namespace dtrain::launcher
