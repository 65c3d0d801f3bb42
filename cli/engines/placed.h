#pragma once
// What an engine has said to `dtrain agent` as a source of values. Pure.
#include "cli/machine/host.h"
#include "cli/options/options.h"

namespace dtrain::cli {

// Fill in --nnodes, --node-rank, --rdzv-endpoint, --rdzv-id and --nproc from host.place. Then nobody else's word about
// the nodes counts.
void take_from_engine(const Host& host, Options& options);

}  // namespace dtrain::cli
