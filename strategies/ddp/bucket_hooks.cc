// See bucket_hooks.h.
#include "strategies/ddp/bucket_hooks.h"

#include "strategies/collectives/collectives.h"
#include "strategies/ddp/bucket_group.h"
#include "strategies/ddp/power_sgd.h"
#include "strategies/ddp/power_sgd_plan.h"

namespace dtrain {
namespace {

using FuturePtr = c10::intrusive_ptr<c10::ivalue::Future>;

class UserHook final : public c10d::CppCommHookInterface<BucketHook> {
 public:
  using CppCommHookInterface::CppCommHookInterface;
  FuturePtr runHook(c10d::GradBucket& bucket) override {
    const CallsOf its(origin_of(bucket));
    FuturePtr future = state_(bucket);
    TORCH_CHECK(future, "dtrain: the hook of Ddp returned no future");
    return future;
  }
};

class CompressingHook final : public c10d::CppCommHookInterface<GroupPtr> {
 public:
  CompressingHook(GroupPtr group, at::ScalarType type) : CppCommHookInterface(std::move(group)), type_(type) {}

  FuturePtr runHook(c10d::GradBucket& bucket) override {
    const CallsOf its(origin_of(bucket));
    at::Tensor gradients = bucket.getBufferRef();
    // Divided before the sum, and before the narrower type: neither overflows where the average would not.
    std::vector<at::Tensor> narrow{gradients.div(state_->getSize()).to(type_)};
    const auto widen = [gradients](c10::ivalue::Future& reduced) -> c10::IValue {
      const at::NoGradGuard no_grad;
      at::Tensor(gradients).copy_(reduced.value().toTensorVector().at(0));
      return gradients;
    };
    return state_->allreduce(narrow)->getFuture()->then(widen, c10::TensorType::get());
  }

 private:
  const at::ScalarType type_;
};

}  // namespace

void check_reduction(const DdpOptions& options) {
  const int chosen =
      (options.hook ? 1 : 0) + (options.power_sgd ? 1 : 0) + (options.compression != GradientCompression::none ? 1 : 0);
  if (chosen > 1) throw ConfigError("dtrain: Ddp takes one of hook, compression and power_sgd");
  const std::string complaint = options.power_sgd ? why_not(*options.power_sgd) : "";
  if (!complaint.empty()) throw ConfigError("dtrain: power_sgd: " + complaint);
}

std::unique_ptr<c10d::CommHookInterface> bucket_hook(const Group& group, const std::vector<at::Tensor>& parameters,
                                                     const DdpOptions& options) {
  for (const at::Tensor& parameter : parameters) {
    const bool narrowed = options.power_sgd || options.compression != GradientCompression::none;
    if (narrowed && parameter.is_complex())
      throw ConfigError("dtrain: Ddp compresses gradients of real numbers; this module has complex parameters");
  }
  if (options.power_sgd) {
    const Group own = group.again({group.name() + " (PowerSGD)"});
    return power_sgd_hook(own.process_group(), parameters, *options.power_sgd);
  }
  if (options.hook) return std::make_unique<UserHook>(options.hook);
  switch (options.compression) {
    case GradientCompression::none:
      return nullptr;
    case GradientCompression::fp16:
      return std::make_unique<CompressingHook>(group.process_group(), at::kHalf);
    case GradientCompression::bf16:
      return std::make_unique<CompressingHook>(group.process_group(), at::kBFloat16);
  }
  return nullptr;
}

}  // namespace dtrain
