#pragma once
// `dtrain run`, `dtrain launch`, torchrun and `dtrain plan`.
#include <optional>
#include <string>
#include <vector>

#include "cli/engines/cluster.h"
#include "cli/machine/host.h"
#include "cli/parse/parse.h"
#include "launcher/engines/placement.h"
#include "rendezvous/base/result.h"

namespace dtrain::cli {

// What was typed with what a config file says, and who starts the agents: one of the three, or else this process is an
// agent.
struct JobStart {
  RawOptions raw{};
  Host host{};
  std::optional<launcher::PlacementRequest> hosts{};
  std::optional<ClusterRequest> cluster{};
  std::optional<std::vector<std::string>> srun{};
};
// Says what is to be said once of the file.
Result<JobStart> find_start(RawOptions raw, Host host);

// `words`: what was typed after the command. Prints what the flags ask for, or carries out the job. Exit code:
// docs/exit-codes.md. Forks: call with one thread. `raw_input`: of the command among these words.
int run_command(const std::vector<std::string>& words, CalledAs called, std::optional<RawInput> raw_input = {});

// The same up to the point where something would be started: prints the layout, with --json as JSON.
int plan_command(std::vector<std::string> words);

}  // namespace dtrain::cli
