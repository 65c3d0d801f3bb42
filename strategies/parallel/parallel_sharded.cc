#include "strategies/parallel/parallel_sharded.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "strategies/collectives/collectives.h"
#include "strategies/ddp/diverged.h"
#include "strategies/parallel/gradient_norm.h"
#include "strategies/parallel/model_state.h"
#include "strategies/shard/backward_edges.h"
#include "strategies/shard/shard_group.h"
#include "strategies/shard/unshard_core.h"

namespace dtrain {
namespace {

std::optional<at::ScalarType> type_of(Precision precision) {
  switch (precision) {
    case Precision::float32:
      return at::kFloat;
    case Precision::bfloat16:
      return at::kBFloat16;
    case Precision::float16:
      return at::kHalf;
    case Precision::same:
      break;
  }
  return std::nullopt;
}

ShardSettings settings_for(Session& session, const Strategy& strategy) {
  ShardSettings settings;
  settings.everyone = settings.sharing = session.world();
  const int size = strategy.shard_size, ranks = session.world_size();
  if (size > 0 && size != ranks) {
    if (ranks % size != 0) {
      throw ConfigError(
          fmt::format("dtrain: strategy: shard_size {} does not divide the {} ranks; each set of ranks that shares a "
                      "model has so many",
                      size, ranks));
    }
    settings.sharing = session.split(session.rank() / size, {"sharing"});
    settings.replicas = session.split(session.rank() % size, {"replicas"});
  }
  settings.compute = type_of(strategy.param);
  settings.reduce = type_of(strategy.reduce);
  settings.whole_stays = strategy.kind != StrategyKind::fsdp;
  settings.gradients_stay = strategy.kind == StrategyKind::zero1;
  const bool together = shares_memory(settings.sharing.process_group()) && session.device().is_cpu();
  settings.one_copy = strategy.kind == StrategyKind::fsdp && strategy.one_copy && together;
  return settings;
}

class ParallelSharded final : public ParallelCore,
                              public UnitBuilder,
                              public std::enable_shared_from_this<ParallelSharded> {
 public:
  ParallelSharded(Session& session, const Strategy& strategy, const ParallelOptions& options)
      : strategy_(strategy),
        options_(options),
        settings_(settings_for(session, strategy)),
        loads_(static_cast<std::size_t>(settings_.sharing.size()), 0) {}

  UnitBuilder* builder() override { return strategy_.kind == StrategyKind::fsdp ? this : nullptr; }
  void built(torch::nn::Module& module, UnitSite& site) override;
  void take(std::shared_ptr<torch::nn::Module> module) override;

  const Strategy& strategy() const override { return strategy_; }
  std::vector<at::Tensor> parameters() override;
  std::vector<ShardRun> runs() override;
  std::vector<at::Tensor> gradients() override;
  SumOverRanks sum() const override {
    return [sharing = settings_.sharing](const at::Tensor& each) { sharing.all_reduce(each); };
  }
  CheckpointState state(const ShardedOptimizer* optimizer, Purpose purpose) override;
  bool set_sync(bool sync) override { return std::exchange(sync_, sync); }
  void zero_grad() override;
  torch::Tensor clip_grad_norm(double max_norm, double norm_type) override;
  void begin_step() override;
  void end_step() override;
  void gather_all() override { carry_out(core_->gather_all()); }
  void free_all() override { carry_out(core_->free_all()); }

  // The root's.
  void before_forward(const std::vector<at::Tensor*>& inputs) override;
  void after_forward(const std::optional<std::vector<at::Tensor*>>& outputs) override;
  void give_up() noexcept override;

 private:
  class Unit;
  bool is_fsdp() const { return strategy_.kind == StrategyKind::fsdp; }
  std::vector<NamedTensor> unclaimed(const torch::nn::Module& module) const;
  std::size_t add_group(const std::string& name, const std::vector<NamedTensor>& parameters, bool resharded);
  void add_buckets(const std::vector<NamedTensor>& parameters);
  void name_members();
  void unit_begins(std::size_t group, const std::vector<at::Tensor*>& inputs);
  void unit_ends(std::size_t group, const std::optional<std::vector<at::Tensor*>>& outputs);
  void in_backward();
  void backward_ends();
  void gradient_came();
  void reduce_buckets(bool all);
  void carry_out(const UnshardCore::Actions& actions);
  void carry_out(UnshardCore::Action action);
  bool learns(std::size_t group) const { return torch::GradMode::is_enabled() && groups_[group]->trains(); }

  Strategy strategy_;
  ParallelOptions options_;
  ShardSettings settings_;
  std::vector<std::int64_t> loads_;  // elements of each rank
  std::shared_ptr<torch::nn::Module> module_;
  std::vector<at::Tensor> buffers_;
  std::vector<std::unique_ptr<ShardGroup>> groups_;
  std::vector<UnshardCore::Facts> facts_;
  std::optional<UnshardCore> core_;
  std::unordered_set<const c10::TensorImpl*> claimed_;  // parameters that have a group
  std::optional<std::size_t> root_;                     // what belongs to no unit
  bool sync_ = true;
  bool in_backward_ = false;
  std::size_t next_bucket_ = 0;  // zero1 and zero2: to be reduced
};

// Before and after the forward of one unit.
class ParallelSharded::Unit final : public UnitHooks {
 public:
  Unit(std::weak_ptr<ParallelSharded> all, std::size_t group) : all_(std::move(all)), group_(group) {}
  void before_forward(const std::vector<at::Tensor*>& inputs) override { all()->unit_begins(group_, inputs); }
  void after_forward(const std::optional<std::vector<at::Tensor*>>& outputs) override {
    all()->unit_ends(group_, outputs);
  }
  void give_up() noexcept override {
    if (const auto all = all_.lock()) all->give_up();
  }

 private:
  std::shared_ptr<ParallelSharded> all() const {
    auto all = all_.lock();
    TORCH_CHECK(all, "dtrain: a unit of a sharded model was called after the end of its Parallel");
    return all;
  }
  std::weak_ptr<ParallelSharded> all_;
  std::size_t group_;
};

std::vector<NamedTensor> ParallelSharded::unclaimed(const torch::nn::Module& module) const {
  std::vector<NamedTensor> found;
  for (const auto& [name, parameter] : parameters_of(module)) {
    if (claimed_.contains(parameter.unsafeGetTensorImpl())) continue;
    found.push_back({name, parameter, options_.placement ? options_.placement(name, parameter) : Placement{}});
  }
  return found;
}

void ParallelSharded::built(torch::nn::Module& module, UnitSite& site) {
  const std::vector<NamedTensor> parameters = unclaimed(module);
  std::int64_t elements = 0;
  for (const NamedTensor& each : parameters) elements += each.tensor.numel();
  if (parameters.empty() || elements < strategy_.unit_elements) return;
  const std::size_t group = add_group(module.name(), parameters, strategy_.reshard_after_forward);
  site.set_hooks(std::make_shared<Unit>(weak_from_this(), group));
}

std::size_t ParallelSharded::add_group(const std::string& name, const std::vector<NamedTensor>& parameters,
                                       bool resharded) {
  std::vector<NamedParameter> alike;
  for (const NamedTensor& each : parameters) {
    alike.push_back({each.name, each.tensor});
    claimed_.insert(each.tensor.unsafeGetTensorImpl());
  }
  require_alike(settings_.everyone, alike, {});
  groups_.push_back(std::make_unique<ShardGroup>(settings_, name, parameters, loads_));
  facts_.push_back({resharded, groups_.back()->trains()});
  return groups_.size() - 1;
}

// In the order in which gradients come, as a rule.
void ParallelSharded::add_buckets(const std::vector<NamedTensor>& parameters) {
  std::vector<NamedTensor> bucket;
  std::int64_t bytes = 0;
  const auto close = [&] {
    if (bucket.empty()) return;
    add_group(fmt::format("bucket {}", groups_.size() + 1), bucket, false);
    bucket.clear();
    bytes = 0;
  };
  for (auto each = parameters.rbegin(); each != parameters.rend(); ++each) {
    const bool fits = bucket.empty() || (bucket.front().tensor.scalar_type() == each->tensor.scalar_type() &&
                                         bucket.front().tensor.device() == each->tensor.device());
    if (!fits) close();
    bucket.push_back(*each);
    bytes += static_cast<std::int64_t>(each->tensor.nbytes());
    if (bytes >= strategy_.bucket_bytes) close();
  }
  close();
}

void ParallelSharded::take(std::shared_ptr<torch::nn::Module> module) {
  module_ = std::move(module);
  const std::vector<NamedTensor> rest = unclaimed(*module_);
  if (is_fsdp()) {
    // Backward needs them first, so they stay whole.
    if (!rest.empty()) root_ = add_group(module_->name(), rest, false);
  } else {
    add_buckets(rest);
  }
  TORCH_CHECK(std::any_of(groups_.begin(), groups_.end(), [](const auto& each) { return each->trains(); }),
              "dtrain: Parallel needs a module with a parameter that requires a gradient");
  const std::vector<NamedParameter> named = buffers_of(*module_);
  for (const NamedParameter& each : named) buffers_.push_back(each.tensor);
  require_alike(settings_.everyone, {}, named);
  if (!buffers_.empty()) broadcast_all(settings_.everyone.process_group(), buffers_, 0);
  name_members();
  core_.emplace(facts_, is_fsdp() ? strategy_.prefetch : 0);
  for (const auto& group : groups_) group->on_gradient([this] { in_backward(); }, [this] { gradient_came(); });
}

// A unit that was just built knows its parameters by other names than the whole module does.
void ParallelSharded::name_members() {
  ShardGroup::Names names;
  for (const auto& [name, parameter] : parameters_of(*module_)) names.emplace(parameter.unsafeGetTensorImpl(), name);
  for (const auto& group : groups_) group->rename(names);
}

std::vector<ShardRun> ParallelSharded::runs() {
  std::vector<ShardRun> all;
  for (const auto& group : groups_) all.insert(all.end(), group->runs().begin(), group->runs().end());
  return all;
}

std::vector<at::Tensor> ParallelSharded::parameters() {
  std::vector<at::Tensor> found;
  for (const ShardRun& run : runs()) {
    if (run.values.numel() > 0) found.push_back(run.values);
  }
  return found;
}

std::vector<at::Tensor> ParallelSharded::gradients() {
  std::vector<at::Tensor> found;
  for (const auto& group : groups_) {
    for (const ShardRun& run : group->runs()) found.push_back(run.values.grad());
  }
  return found;
}

CheckpointState ParallelSharded::state(const ShardedOptimizer* optimizer, Purpose purpose) {
  std::vector<Shard> shards;
  for (const auto& group : groups_) {
    const std::vector<Shard> its = group->shards();
    shards.insert(shards.end(), its.begin(), its.end());
  }
  // The first of those that have the same part saves it.
  const bool first = !settings_.replicas || settings_.replicas.rank() == 0;
  return state_of(*module_, shards, optimizer, purpose, {settings_.everyone.rank(), 0, first});
}

void ParallelSharded::zero_grad() {
  for (const auto& group : groups_) group->forget_gradients();
}

torch::Tensor ParallelSharded::clip_grad_norm(double max_norm, double norm_type) {
  std::vector<at::Tensor> gradients;
  for (const auto& group : groups_) gradients.push_back(group->gradient());
  return clip_by_norm(gradients, max_norm, norm_type, &settings_.sharing);
}

// With one copy, other ranks may still read what this rank is about to write.
void ParallelSharded::begin_step() {
  TORCH_CHECK(!in_backward_, "dtrain: Parallel::step was called within backward");
  if (settings_.one_copy) settings_.sharing.barrier();
}

void ParallelSharded::end_step() {
  for (const auto& group : groups_) group->publish();
  // A forward without a backward may have left groups whole, with the old values.
  if (is_fsdp()) carry_out(core_->give_up());
  if (settings_.one_copy) settings_.sharing.barrier();
}

void ParallelSharded::before_forward(const std::vector<at::Tensor*>& inputs) {
  if (std::exchange(in_backward_, false)) give_up();  // an exception has ended the last one
  if (options_.broadcast_buffers && !buffers_.empty() && sync_ && torch::GradMode::is_enabled()) {
    std::vector<at::Tensor> values;
    for (const at::Tensor& buffer : buffers_) values.push_back(buffer.variable_data());
    broadcast_all(settings_.everyone.process_group(), values, 0);
  }
  if (root_) unit_begins(*root_, inputs);
}

void ParallelSharded::after_forward(const std::optional<std::vector<at::Tensor*>>& outputs) {
  if (root_) unit_ends(*root_, outputs);
}

void ParallelSharded::give_up() noexcept {
  try {
    if (core_) carry_out(core_->give_up());
  } catch (const std::exception& /*error*/) {
    // The group is broken, and whatever comes next says so.
  }
}

void ParallelSharded::unit_begins(std::size_t group, const std::vector<at::Tensor*>& inputs) {
  TORCH_CHECK(core_, "dtrain: a unit was called while the model is built; Parallel must have all of it first");
  carry_out(core_->before_forward(group, learns(group)));
  if (!learns(group)) return;
  // The root's gradients may come until the end.
  if (root_ && group == *root_) return;
  call_behind(inputs, [self = weak_from_this(), group] {
    const auto all = self.lock();
    if (!all) return;
    all->in_backward();
    all->carry_out(all->core_->after_backward(group));
  });
}

void ParallelSharded::unit_ends(std::size_t group, const std::optional<std::vector<at::Tensor*>>& outputs) {
  const bool learns = this->learns(group);
  const auto back = [self = weak_from_this(), group] {
    const auto all = self.lock();
    if (!all) return;
    all->in_backward();
    all->carry_out(all->core_->before_backward(group));
  };
  // What backward comes from is not known: the parameters stay.
  const bool known = !learns || (outputs && call_before(*outputs, back));
  carry_out(core_->after_forward(group, learns, /*stays=*/!known));
}

void ParallelSharded::in_backward() {
  if (std::exchange(in_backward_, true)) return;
  next_bucket_ = 0;
  for (const auto& group : groups_) group->expect_gradients();
  call_at_end([self = weak_from_this()] {
    if (const auto all = self.lock()) all->backward_ends();
  });
}

void ParallelSharded::gradient_came() {
  if (!is_fsdp()) reduce_buckets(false);
}

// In their order, which is the same on all ranks.
void ParallelSharded::reduce_buckets(bool all) {
  for (; next_bucket_ < groups_.size() && (all || groups_[next_bucket_]->has_all_gradients()); ++next_bucket_)
    carry_out({UnshardCore::Do::reduce, next_bucket_});
}

void ParallelSharded::backward_ends() {
  in_backward_ = false;
  if (is_fsdp()) return carry_out(core_->end_backward());
  reduce_buckets(true);
  for (std::size_t g = 0; g < groups_.size(); ++g) carry_out({UnshardCore::Do::wait_reduced, g});
}

void ParallelSharded::carry_out(const UnshardCore::Actions& actions) {
  for (const UnshardCore::Action& action : actions) carry_out(action);
}

void ParallelSharded::carry_out(UnshardCore::Action action) {
  using Do = UnshardCore::Do;
  ShardGroup& group = *groups_[action.group];
  switch (action.what) {
    case Do::gather:
      return group.begin_gather();
    case Do::wait:
      return group.end_gather();
    case Do::free:
      return group.free();
    case Do::reduce:
      if (sync_ && group.trains()) group.begin_reduce();
      return;
    case Do::wait_reduced:
      return group.end_reduce();
  }
}

}  // namespace

std::shared_ptr<ParallelCore> make_parallel_sharded(Session& session, const Strategy& strategy,
                                                    const ParallelOptions& options) {
  return std::make_shared<ParallelSharded>(session, strategy, options);
}

}  // namespace dtrain
