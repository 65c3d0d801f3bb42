#pragma once
// The runner of a cloud as a source of values: SkyPilot, dstack and an indexed Job of Kubernetes run the same command
// on each node, and say which node this is. Pure.
#include "cli/machine/host.h"
#include "cli/options/options.h"
#include "rendezvous/base/result.h"

namespace dtrain::cli {

// Fill in --nnodes, --node-rank, --rdzv-endpoint and --rdzv-id, unless the user or another launcher has said where the
// nodes meet. Not as torchrun, whose users type these flags. An indexed Job does not say --nnodes, and counts only
// where somebody does.
Result<void> take_from_cloud(const RawOptions& raw, const Host& host, Options& options);

}  // namespace dtrain::cli
