#pragma once
// The norm of all gradients of a model, of which each rank has a part.
#include <vector>

#include "dtrain/group.h"
#include "strategies/torch/compat.h"

namespace dtrain {

// Scales the gradients, of which some may be undefined, so that their norm is at most `max_norm`. Returns the norm that
// they had. `sharing`: the ranks that have the other parts; null if this rank has all. `norm_type`: 2 or infinity;
// throws ConfigError otherwise. With `sharing` a collective.
at::Tensor clip_by_norm(const std::vector<at::Tensor>& gradients, double max_norm, double norm_type,
                        const Group* sharing);

}  // namespace dtrain
