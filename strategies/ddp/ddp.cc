// Ddp over c10d::Reducer; see include/dtrain/ddp.h. The Reducer hooks every parameter's gradient accumulator, fills the
// buckets as gradients come and reduces each as soon as it is full, divided by the world size.
#include "dtrain/ddp.h"

#include <algorithm>
#include <limits>

#include "strategies/torch/compat.h"

namespace dtrain {
namespace {

constexpr std::size_t kBroadcastBytes = 250 * 1024 * 1024;  // at most so much is packed into one broadcast

struct NamedParameters {
  std::vector<at::Tensor> tensors;  // those that need a gradient, each once
  std::unordered_map<std::size_t, std::string> names;
};

NamedParameters trainable(const torch::nn::Module& module) {
  NamedParameters found;
  for (const auto& item : module.named_parameters()) {
    const bool seen = std::any_of(found.tensors.begin(), found.tensors.end(),
                                  [&](const at::Tensor& t) { return t.is_same(item.value()); });
    if (seen || !item.value().requires_grad()) continue;
    found.names.emplace(found.tensors.size(), item.key());
    found.tensors.push_back(item.value());
  }
  TORCH_CHECK(!found.tensors.empty(), "dtrain: Ddp needs a module with a parameter that requires a gradient");
  return found;
}

std::shared_ptr<c10d::Reducer> make_reducer(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                            const NamedParameters& parameters, const DdpOptions& options) {
  // One bucket at first; the Reducer makes the real ones after the first backward, in the order the gradients came.
  auto [buckets, limits] = c10d::compute_bucket_assignment_by_size(
      parameters.tensors, {static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max())});
  std::reverse(buckets.begin(), buckets.end());
  return std::make_shared<c10d::Reducer>(
      parameters.tensors, std::move(buckets), group, std::vector<bool>(parameters.tensors.size(), false),
      options.bucket_bytes,
      /*find_unused_parameters=*/false, options.gradient_as_bucket_view, parameters.names, options.first_bucket_bytes,
      /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false, std::vector<std::int64_t>{});
}

}  // namespace

struct DdpCore::State {
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> buffers;
  std::shared_ptr<c10d::Reducer> reducer;
  std::shared_ptr<c10d::Logger> logger;
  bool broadcast_buffers = true;
  bool sync = true;
  bool forward_will_sync = false;
};

DdpCore::DdpCore(Session& session, torch::nn::Module& module, const DdpOptions& options)
    : state_(std::make_unique<State>()) {
  const NamedParameters parameters = trainable(module);
  state_->group = session.group();
  state_->parameters = module.parameters();
  state_->buffers = module.buffers();
  state_->broadcast_buffers = options.broadcast_buffers;
  c10d::verify_params_across_processes(state_->group, parameters.tensors, std::nullopt);
  std::vector<at::Tensor> shared = state_->parameters;
  shared.insert(shared.end(), state_->buffers.begin(), state_->buffers.end());
  {
    const torch::NoGradGuard no_grad;
    c10d::broadcast_coalesced(state_->group, shared, kBroadcastBytes, 0);
  }
  state_->reducer = make_reducer(state_->group, parameters, options);
  state_->logger = std::make_shared<c10d::Logger>(state_->reducer);
  state_->logger->set_construction_data_and_log(module.name(), {}, -1, options.broadcast_buffers, false, false);
  state_->reducer->set_logger(state_->logger);
}

DdpCore::~DdpCore() = default;

bool DdpCore::set_sync(bool sync) { return std::exchange(state_->sync, sync); }

void DdpCore::zero_grad() {
  for (at::Tensor& parameter : state_->parameters) parameter.mutable_grad().reset();
}

void DdpCore::before_forward() {
  state_->forward_will_sync = state_->sync && torch::GradMode::is_enabled();
  if (!torch::GradMode::is_enabled()) return;
  if (state_->forward_will_sync) {
    state_->logger->set_runtime_stats_and_log();
    state_->reducer->prepare_for_forward();
  }
  state_->reducer->rebuild_buckets();
  if (state_->forward_will_sync && state_->broadcast_buffers && !state_->buffers.empty()) {
    const torch::NoGradGuard no_grad;
    c10d::broadcast_coalesced(state_->group, state_->buffers, kBroadcastBytes, 0);
  }
}

void DdpCore::after_forward() {
  if (state_->forward_will_sync) state_->reducer->prepare_for_backward({});
}

}  // namespace dtrain
