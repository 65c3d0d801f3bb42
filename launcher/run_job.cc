#include "launcher/run_job.h"

#include <fcntl.h>

#include <algorithm>
#include <csignal>
#include <optional>

#include "launcher/agent.h"
#include "launcher/front.h"

namespace dtrain::launcher {

namespace {

// A signal that our parent had us ignore (nohup, a shell's `&`) stays ignored.
std::vector<int> not_ignored(const std::vector<int>& signals) {
  std::vector<int> kept;
  for (const int s : signals) {
    struct sigaction now {};
    if (::sigaction(s, nullptr, &now) == 0 && now.sa_handler != SIG_IGN) kept.push_back(s);
  }
  return kept;
}

// With a standard descriptor closed, the next one we open would take its number and get the workers' output.
void fill_standard_descriptors() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0) ::open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY);
  }
}

}  // namespace

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
