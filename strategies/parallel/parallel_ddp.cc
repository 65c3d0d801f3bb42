#include "strategies/parallel/parallel_ddp.h"

#include <algorithm>
#include <optional>

#include "strategies/ddp/diverged.h"
#include "strategies/parallel/gradient_norm.h"
#include "strategies/parallel/model_state.h"

namespace dtrain {
namespace {

class ParallelDdp final : public ParallelCore {
 public:
  ParallelDdp(Session& session, const Strategy& strategy, const ParallelOptions& options)
      : world_(session.world()),
        device_(options.device.value_or(session.device())),
        strategy_(strategy),
        broadcast_buffers_(options.broadcast_buffers) {}

  void take(std::shared_ptr<torch::nn::Module> module) override {
    module_ = std::move(module);
    module_->to(device_);
    parameters_ = parameters_of(*module_);
    // As the other strategies lay them out: rows of elements.
    for (NamedParameter& each : parameters_) {
      if (!each.tensor.is_contiguous()) each.tensor.set_data(each.tensor.detach().contiguous());
    }
    DdpOptions options;
    options.find_unused_parameters = strategy_.find_unused_parameters;
    options.bucket_bytes = strategy_.bucket_bytes;
    options.gradient_as_bucket_view = true;
    options.broadcast_buffers = broadcast_buffers_;
    ddp_.emplace(world_, *module_, options);
  }
  const Strategy& strategy() const override { return strategy_; }

  void before_forward(const std::vector<at::Tensor*>& /*inputs*/) override { ddp_->before_forward(); }
  void after_forward(const std::optional<std::vector<at::Tensor*>>& outputs) override { ddp_->after_forward(outputs); }
  void give_up() noexcept override {}

  std::vector<at::Tensor> parameters() override {
    std::vector<at::Tensor> found;
    for (const NamedParameter* each : trained()) found.push_back(each->tensor);
    return found;
  }
  // Each parameter is a run of its own.
  std::vector<ShardRun> runs() override {
    std::vector<ShardRun> found;
    for (const NamedParameter* each : trained()) {
      const at::Tensor row = each->tensor.detach().view({-1});
      found.push_back({row, {{each->name, each->tensor.sizes().vec(), 0, row}}});
    }
    return found;
  }
  std::vector<at::Tensor> gradients() override {
    std::vector<at::Tensor> found;
    for (const NamedParameter* each : trained()) {
      const at::Tensor& gradient = each->tensor.grad();
      found.push_back(gradient.defined() ? gradient.reshape({-1}) : gradient);
    }
    return found;
  }
  SumOverRanks sum() const override { return {}; }
  Group everyone() const override { return world_; }
  // All ranks have all: each saves its share.
  CheckpointState state(const ShardedOptimizer* optimizer, Purpose purpose) override {
    return state_of(*module_, shards(), optimizer, purpose, {world_.rank(), world_.size()});
  }
  void spread(bool weights, const ShardedOptimizer* optimizer) override {
    const std::vector<at::Tensor> rows = rows_of(shards(), weights, optimizer);
    for (int rank = 0; rank < world_.size(); ++rank) {
      std::vector<at::Tensor> its;
      for (const at::Tensor& row : rows) its.push_back(share_of(row, rank, world_.size()));
      broadcast_all(world_.process_group(), its, rank);
    }
    if (!weights) return;
    std::vector<at::Tensor> buffers;
    for (const auto& buffer : module_->buffers()) buffers.push_back(buffer.detach());
    broadcast_all(world_.process_group(), buffers, 0);
  }
  bool set_sync(bool sync) override { return ddp_->set_sync(sync); }
  void zero_grad() override { ddp_->zero_grad(); }
  torch::Tensor clip_grad_norm(double max_norm, double norm_type) override {
    std::vector<at::Tensor> gradients;
    for (const NamedParameter* each : trained()) gradients.push_back(each->tensor.grad());
    const at::NoGradGuard no_grad;
    require_clip_limit("clip_grad_norm", max_norm);
    const at::Tensor norm = norm_of_all(gradients, norm_type);
    scale_down(gradients, clip_factor(norm, max_norm));
    return norm;
  }
  void end_step() override {}
  void gather_all() override {}
  void free_all() override {}

 private:
  void ready_to_step() override {}
  std::vector<Shard> shards() const {
    std::vector<Shard> found;
    for (const auto& [name, parameter] : parameters_)
      found.push_back({name, parameter.sizes().vec(), 0, parameter.detach().reshape({-1})});
    return found;
  }
  std::vector<const NamedParameter*> trained() const {
    std::vector<const NamedParameter*> found;
    for (const NamedParameter& each : parameters_) {
      if (each.tensor.requires_grad()) found.push_back(&each);
    }
    return found;
  }
  Group world_;
  torch::Device device_;
  Strategy strategy_;
  bool broadcast_buffers_;
  std::shared_ptr<torch::nn::Module> module_;
  std::vector<NamedParameter> parameters_;  // frozen ones too
  std::optional<DdpCore> ddp_;
};

}  // namespace

std::shared_ptr<ParallelCore> make_parallel_ddp(Session& session, const Strategy& strategy,
                                                const ParallelOptions& options) {
  return std::make_shared<ParallelDdp>(session, strategy, options);
}

}  // namespace dtrain
