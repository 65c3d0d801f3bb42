#pragma once
// The NCCL process group for CUDA tensors, where dtrain was built with DTRAIN_CUDA.
#include <chrono>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "strategies/comm/base/rank_names.h"

namespace dtrain {

// Whether CUDA tensors can be used here: built with CUDA, and a device is present.
bool nccl_available();
// The backend of `rank` on `device`; collective. `names` are for NCCL's own log. Only where nccl_available().
c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                                    at::Device device, std::chrono::milliseconds timeout,
                                                    const RankNames& names);

}  // namespace dtrain
