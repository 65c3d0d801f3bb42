#pragma once
// PowerSGD as what the Reducer does with a bucket; see include/dtrain/power_sgd.h. What is remembered belongs to the
// parameters and not to buckets, which the Reducer makes anew after the first backward: so the result does not depend
// on how gradients are put into buckets.
#include <memory>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include "dtrain/power_sgd.h"
#include "strategies/collectives/collectives.h"

namespace dtrain {

// `parameters`: those that need a gradient, in the same order on all ranks. `group` is used by nobody else: collectives
// are started from callbacks, at moments that differ between ranks, and only among themselves they have an order.
std::unique_ptr<c10d::CommHookInterface> power_sgd_hook(const GroupPtr& group,
                                                        const std::vector<at::Tensor>& parameters,
                                                        const PowerSgd& options);

}  // namespace dtrain
