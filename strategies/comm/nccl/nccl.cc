// See nccl.h. Compiled only with DTRAIN_CUDA; a GPU is looked for when the program runs.
#include "strategies/comm/nccl/nccl.h"

#include <c10/cuda/CUDAFunctions.h>
#include <c10/util/env.h>
#include <torch/cuda.h>

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

namespace dtrain {

bool nccl_available() { return torch::cuda::is_available(); }

c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                                    at::Device device, std::chrono::milliseconds timeout,
                                                    const RankNames& names) {
  c10::cuda::set_device(device.index());
  // When a collective fails, torch's watchdog sleeps for four times this before it ends the process, a minute if it is
  // not set: for the dump of torch's flight recorder, also where that records nothing.
  using c10::utils::get_env;
  if (!get_env("TORCH_NCCL_TRACE_BUFFER_SIZE") && !get_env("TORCH_FR_BUFFER_SIZE"))
    c10::utils::set_env("TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "250", false);
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = timeout;
  options->group_name = names.group;
  options->global_ranks_in_group.assign(names.ranks.begin(), names.ranks.end());
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, size, options);
}

}  // namespace dtrain
