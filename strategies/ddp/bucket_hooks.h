#pragma once
// What the Reducer does with a bucket instead of its own all-reduce.
#include <memory>

#include "dtrain/ddp.h"
#include "strategies/torch/pch.h"

namespace dtrain {

// Throws ConfigError for options that make no sense.
void check_reduction(const DdpOptions& options);
// Null: nothing else. Collective of the group, where PowerSGD needs one of its own. `parameters`: those that need a
// gradient.
std::unique_ptr<c10d::CommHookInterface> bucket_hook(const Group& group, const std::vector<at::Tensor>& parameters,
                                                     const DdpOptions& options);

}  // namespace dtrain
