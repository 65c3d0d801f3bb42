#pragma once
// Which tensors go through one collective together. Pure.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "strategies/horovod/request_wire.h"

namespace dtrain::hvd {

// Indices into `ready`, each in one part; parts in the order of their first tensors. Tensors of a part have the same
// type, device and operation, and at most `threshold` bytes together; a larger one is alone.
std::vector<std::vector<std::size_t>> plan_fusion(const std::vector<Request>& ready, std::int64_t threshold);

}  // namespace dtrain::hvd
