#pragma once
// SLURM as a source of values: in a job step of several nodes, what SLURM says stands in for the flags that tell
// torchrun where the nodes meet. Whatever the user says about that comes first, and then SLURM's word does not count at
// all.
#include <string>

#include "cli/host.h"
#include "cli/options.h"
#include "rendezvous/base/result.h"

namespace dtrain::cli {

// The variable that is named where SLURM has said where the nodes meet (RawValue::where).
inline constexpr const char* kSlurmNodes = "SLURM_STEP_NODELIST";

// Fill in --nnodes, --node-rank, --rdzv-endpoint and --rdzv-id. Not as torchrun, which knows nothing of SLURM. Pure but
// for host.slurm_address.
Result<void> take_from_slurm(const RawOptions& raw, const Host& host, Options& options);

// What the network calls a node of SLURM's: its name if that resolves; else the address that SLURM uses (NodeAddr),
// asked of scontrol; else the name. Forks: call with one thread.
std::string slurm_address(const std::string& node);

// NodeAddr in what `scontrol show node NAME --oneliner` prints; empty if there is none. Pure.
std::string node_address(const std::string& scontrol_says);

}  // namespace dtrain::cli
