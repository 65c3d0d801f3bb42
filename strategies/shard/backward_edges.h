#pragma once
// Places in autograd's graph where a function is called.
#include <functional>
#include <vector>

#include "strategies/torch/compat.h"

namespace dtrain {

// Called once in a backward, when the gradients of all these tensors that backward comes to are done: what was computed
// from them has been passed. Each tensor becomes another one on the same memory. False if none of them is part of the
// graph: nothing is called then.
bool call_behind(const std::vector<at::Tensor*>& tensors, std::function<void()> call);

// Called in each backward before it goes through one of these tensors; more than once if it goes through several. Each
// becomes another one on the same memory, so what is later changed in place still comes through here. False as above.
bool call_before(const std::vector<at::Tensor*>& tensors, const std::function<void()>& call);

}  // namespace dtrain
