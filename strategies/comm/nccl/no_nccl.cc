// See nccl.h: without DTRAIN_CUDA.
#include "strategies/comm/nccl/nccl.h"

namespace dtrain {

bool nccl_available() { return false; }

c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const c10::intrusive_ptr<c10d::Store>&, int, int, at::Device,
                                                    std::chrono::milliseconds, const RankNames&) {
  TORCH_CHECK(false, "dtrain: built without DTRAIN_CUDA");
}

}  // namespace dtrain
