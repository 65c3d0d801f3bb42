#include "launcher/run_job.h"

#include <algorithm>
#include <optional>

#include "launcher/agent.h"
#include "launcher/front.h"
#include "launcher/inherited.h"

namespace dtrain::launcher {

int run_job(const JobSpec& spec) {
  fill_standard_descriptors();
  JobSpec effective = spec;
  effective.stop_signals = not_ignored(spec.stop_signals);
  effective.passed_signals = not_ignored(spec.passed_signals);
  const auto agent_main = [](FrontSide side, void* context) {
    return run_agent(*static_cast<const JobSpec*>(context), std::move(side));
  };
  std::optional<AttachedTerminal> terminal;
  if (spec.attach) terminal.emplace();
  FrontSignals signals{effective.stop_signals, effective.passed_signals};
  if (spec.nodes.across_hosts)
    signals.stopped_lease = std::min(signals.stopped_lease, spec.nodes.pulse.stopped_lease());
  return run_front(signals, terminal ? &*terminal : nullptr, agent_main, &effective);
}

}  // namespace dtrain::launcher
