#pragma once
// A job whose agents are started by another program, on other hosts.
#include <string>
#include <vector>

#include "cli/engines/cluster.h"
#include "cli/machine/host.h"
#include "cli/options/options.h"
#include "cli/parse/parse.h"
#include "launcher/engines/placement.h"
#include "launcher/submit/submit.h"

namespace dtrain::cli {

// What each node would find wrong with the flags whatever it is like: for who wants to know before there are nodes.
Result<void> judge_for_nodes(const RawOptions& raw, const Options& options, const Host& host);

// Returns the job's exit code, or that of an error, which it says. With --dry-run: says what would be run where.
int submit(const RawOptions& raw, const Options& options, const Host& host, launcher::PlacementRequest request);

// Whether the hosts' agents could be told of the job: what is wrong with it here, before anything is started.
Result<void> check_submission(const RawOptions& raw, const Options& options, const Host& host,
                              launcher::PlacementRequest request);

// Has the hosts' agents look for a folder that this host has made. Returns 0 if all see it; else an exit code, and each
// host that does not see the folder has been named.
int look_on_hosts(const RawOptions& raw, const Options& options, const Host& host, launcher::PlacementRequest request,
                  const std::string& folder);
// Whether there is a host to ask.
bool has_other_hosts(const launcher::PlacementRequest& request);

// The same, started by an engine on the nodes of its cluster.
int submit_to_cluster(const RawOptions& raw, const Options& options, const Host& host, ClusterRequest request);

int look_on_cluster(const RawOptions& raw, const Options& options, const Host& host, ClusterRequest request,
                    const std::string& folder);

// The same for the nodes of an allocation, by a step of SLURM's. `step`: what this program becomes (srun.h). If they
// cannot be asked, it says so, and returns 0. It changes the environment: call it in a child.
int look_on_step(const Host& host, const std::vector<std::string>& step, const std::string& folder);

// What that cluster would give now.
Result<launcher::EngineLook> look_at_cluster(const RawOptions& raw, const Options& options, const Host& host,
                                             ClusterRequest request);

// Executes srun in place of this program. Returns the exit code of an error, which it says. With --dry-run: says the
// command.
int become_srun(const Options& options, const Host& host, const std::vector<std::string>& words);

}  // namespace dtrain::cli
