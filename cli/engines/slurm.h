#pragma once
// SLURM as a source of values: in a job step of several nodes, what SLURM says stands in for the flags that tell
// torchrun where the nodes meet. Whatever the user says about that comes first, and then SLURM's word does not count at
// all.
#include <string>

#include "cli/machine/host.h"
#include "cli/options/options.h"
#include "rendezvous/base/result.h"

namespace dtrain::cli {

// The variable that is named where SLURM has said where the nodes meet (RawValue::where).
inline constexpr const char* kSlurmNodes = "SLURM_STEP_NODELIST";

// Fill in --nnodes, --node-rank, --rdzv-endpoint and --rdzv-id. Not as torchrun, which knows nothing of SLURM. Pure but
// for host.slurm_address.
Result<void> take_from_slurm(const RawOptions& raw, const Host& host, Options& options);

}  // namespace dtrain::cli
