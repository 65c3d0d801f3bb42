#pragma once
// The parts of resolve(), one file each. Each judges some flags and fills its part of the plan. Pure.
#include "cli/machine/host.h"
#include "cli/options/options.h"
#include "cli/resolve/resolve.h"

namespace dtrain::cli {

struct Given {
  const RawOptions& raw;
  const Host& host;
  const Options& options;
};

Result<void> resolve_nodes(const Given& given, Plan& plan);    // which nodes form the job, and where they meet
Result<void> resolve_secret(const Given& given, Plan& plan);   // the token, for a job across hosts; after resolve_nodes
Result<void> resolve_workers(const Given& given, Plan& plan);  // name, number and threads of the workers
// Parts of resolve_workers(): the number, and --virtual-local-rank.
Result<int> count_workers(const Given& given, int most, Plan& plan);
Result<void> resolve_own_device(const Given& given, Plan& plan);
Result<void> resolve_use_gpu(const Given& given, Plan& plan);  // --use-gpu; after the number
// --replica-groups: which of them are this node's; after resolve_nodes. Then the job of each is on one node.
Result<void> resolve_groups(const Given& given, Plan& plan);
// Once the number of workers is known: from then on the spec's number is that of one group.
Result<void> resolve_replicas(const Given& given, Plan& plan);
Result<void> take_restarts(const Options& options, Plan& plan);
int workers_of_node(const launcher::JobSpec& spec);
Result<void> resolve_strategy(const Given& given, Plan& plan);  // how they share a model; after their number
Result<void> resolve_loader(const Given& given, Plan& plan);    // how it reads what it trains on
Result<void> resolve_state(const Given& given, Plan& plan);     // what of them outlives them; after their restarts
Result<void> resolve_numa(const Given& given, Plan& plan);      // the CPUs they are bound to
Result<void> resolve_dataset(const Given& given, Plan& plan);   // the data set that they read
// Whether a node sees a folder of the cache in which another node is about to build. The folder's name is this build's
// alone: a node that does not see the folder has another cache, or none, under the same path.
// `writes`: its workers write there.
Result<void> judge_build_folder(const std::string& folder, bool writes, const Probe& probe);
Result<void> resolve_program(const Given& given, Plan& plan);   // what they execute, and their standard input
Result<void> resolve_stopping(const Given& given, Plan& plan);  // times, signals, containment
Result<void> resolve_output(const Given& given, Plan& plan);    // files, console, report

// --num-proc auto on one node: a worker for each GPU, or one. `one_each`: each has a MIG instance of its own.
int workers_by_gpus(const Host& host, bool use_gpu, bool one_each);
// --num-proc as --nproc. Before the parts.
Result<void> take_num_proc(const Host& host, Options& options);

Result<void> resolve_attach(const Given& given, Plan& plan);  // the terminal for one worker; after all others

}  // namespace dtrain::cli
