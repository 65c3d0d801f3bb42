#pragma once
// The group as torch's Reducer has it: it reduces its buckets in their order and says of none which it is, so they are
// counted here, for errors to name them (comm/base/call_origin.h).
#include "strategies/collectives/collectives.h"
#include "strategies/comm/base/call_origin.h"

namespace dtrain {

// For a hook in place of the Reducer's own all-reduce: of how many buckets it is not told.
inline CallOrigin origin_of(const c10d::GradBucket& bucket) {
  return {CallOrigin::Kind::ddp_backward, static_cast<std::uint32_t>(bucket.getIndex()) + 1};
}

class BucketGroup final : public c10d::ProcessGroup {
 public:
  explicit BucketGroup(const GroupPtr& group) : ProcessGroup(group->getRank(), group->getSize()) {
    for (const c10::Device& device : group->getDeviceTypes()) {
      const auto kind = device.is_cpu() ? BackendType::CUSTOM : BackendType::NCCL;
      setBackend(device.type(), kind, group->getBackend(device.type()));
    }
    setDefaultBackend(group->getBackendType());  // which the Reducer asks for memory
  }

  // The next all-reduce is that of the first bucket.
  void begin(std::size_t buckets) {
    buckets_ = static_cast<std::uint32_t>(buckets);
    next_ = 1;
  }

  // What comes after the last bucket is which parameters were used.
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override {
    const CallsOf its(next_ <= buckets_ ? CallOrigin{CallOrigin::Kind::ddp_backward, next_, buckets_}
                                        : CallOrigin{CallOrigin::Kind::ddp_unused});
    ++next_;
    return ProcessGroup::allreduce(tensors, options);
  }

 private:
  std::uint32_t next_ = 1, buckets_ = 0;
};

}  // namespace dtrain
