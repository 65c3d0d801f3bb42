#pragma once
// Tensors in this process's arena (memory/arena.h).
#include "strategies/torch/pch.h"

namespace dtrain {

// A row of `count` elements, not initialised; elsewhere where there is no room. It may be resized as any tensor: what
// it gets then is of the arena again, but in a forked child.
at::Tensor empty_in_arena(std::int64_t count, caffe2::TypeMeta type);

}  // namespace dtrain
