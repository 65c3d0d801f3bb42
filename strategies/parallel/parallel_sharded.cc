#include "strategies/parallel/parallel_sharded.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <algorithm>

#include "strategies/collectives/collectives.h"
#include "strategies/ddp/diverged.h"
#include "strategies/parallel/all_groups.h"
#include "strategies/parallel/group_builder.h"
#include "strategies/parallel/model_state.h"
#include "strategies/shard/backward_edges.h"
#include "strategies/shard/plan_streams.h"
#include "strategies/torch/backward_end.h"

namespace dtrain {
namespace {

using Groups = GroupBuilder::Groups;
using Tensors = std::vector<at::Tensor*>;

class ParallelSharded final : public ParallelCore,
                              public UnitBuilder,
                              public std::enable_shared_from_this<ParallelSharded> {
 public:
  ParallelSharded(Session& session, const Strategy& strategy, const ParallelOptions& options)
      : strategy_(strategy),
        broadcast_buffers_(options.broadcast_buffers),
        settings_(shard_settings(session, strategy, options)),
        built_(strategy, settings_, options) {
    // Torch's operators divide some sums by the threads, whose number depends on the ranks if the launcher chooses it.
    if (strategy.deterministic) at::set_num_threads(1);
  }

  UnitBuilder* builder() override { return is_fsdp() ? this : nullptr; }
  void built(torch::nn::Module& module, UnitSite& site, const std::string& type) override;
  void take(std::shared_ptr<torch::nn::Module> module) override;

  const Strategy& strategy() const override { return strategy_; }
  std::vector<at::Tensor> parameters() override;
  std::vector<ShardRun> runs() override { return runs_of(groups()); }
  std::vector<at::Tensor> gradients() override { return wide_gradients_of(groups()); }
  void update(ShardedOptimizer& optimizer) override { update_groups(groups(), optimizer); }
  SumOverRanks sum() const override {
    return [sharing = settings_.sharing](const at::Tensor& each) { sharing.all_reduce(each); };
  }
  Group everyone() const override { return settings_.everyone; }
  CheckpointState state(const ShardedOptimizer* optimizer, Purpose purpose) override;
  void spread(bool weights, const ShardedOptimizer* optimizer) override;
  bool set_sync(bool sync) override { return std::exchange(sync_, sync); }
  void zero_grad() override;
  torch::Tensor clip_grad_norm(double max_norm, double norm_type) override {
    return clip_groups(groups(), max_norm, norm_type, settings_.sharing, strategy_.deterministic);
  }
  void end_step() override;
  void gather_all() override { carry_out(core_->hold()); }
  void free_all() override { carry_out(core_->release()); }

  // The root's.
  void before_forward(const Tensors& inputs) override;
  void after_forward(const std::optional<Tensors>& outputs) override;
  void give_up() noexcept override;

 private:
  void ready_to_step() override;
  class Unit;
  struct Backward {};  // alive as long as a backward runs
  bool is_fsdp() const { return strategy_.kind == StrategyKind::fsdp; }
  const ShardGroups& groups() const { return built_.groups(); }
  void warn_if_nothing_fits_ahead(const std::vector<UnshardCore::Facts>& facts) const;
  void sync_buffers();
  void unit_begins(const Groups& unit, const Tensors& inputs);
  void unit_ends(const Groups& unit, const std::optional<Tensors>& outputs);
  void unit_failed(const Groups& unit) noexcept;
  void unit_is_behind(const Groups& unit, const Tensors& inputs);
  void in_backward();
  void heed_failure();
  void gradient_comes(std::size_t group);
  void backward_ends();
  void carry_out(const UnshardCore::Actions& actions);
  static void carry_out(UnshardCore::Do what, ShardGroup& group);

  Strategy strategy_;
  bool broadcast_buffers_;
  ShardSettings settings_;
  GroupBuilder built_;
  std::int64_t holes_ = 0;  // bytes that were freed as units were built, since they were given back
  std::shared_ptr<torch::nn::Module> module_;
  std::vector<at::Tensor> buffers_;
  std::optional<UnshardCore> core_;
  std::optional<PlanStreams> streams_;
  Groups root_;  // what belongs to no unit
  bool sync_ = true;
  std::optional<bool> forward_syncs_;  // the last forward with gradients, if no backward came after it
  std::weak_ptr<Backward> backward_;
};

void cast(const Tensors& tensors, const std::optional<at::ScalarType>& type) {
  for (at::Tensor* each : tensors) {
    if (type && each->defined() && each->is_floating_point()) *each = each->to(*type);
  }
}

constexpr std::int64_t kMostHoles = 16 << 20;  // bytes of units that were built

// What was built leaves holes in malloc's heap, which glibc does not use for the next block of the same size and
// alignment: so a rank would need the memory of the whole model to build it.
void give_back_holes() {
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

// Before and after the forward of one unit.
class ParallelSharded::Unit final : public UnitHooks {
 public:
  Unit(std::weak_ptr<ParallelSharded> all, Groups groups) : all_(std::move(all)), groups_(std::move(groups)) {}
  void before_forward(const Tensors& inputs) override { required(all_)->unit_begins(groups_, inputs); }
  void after_forward(const std::optional<Tensors>& outputs) override { required(all_)->unit_ends(groups_, outputs); }
  void give_up() noexcept override {
    if (const auto all = all_.lock()) all->unit_failed(groups_);
  }
  static std::shared_ptr<ParallelSharded> required(const std::weak_ptr<ParallelSharded>& weak) {
    auto all = weak.lock();
    TORCH_CHECK(all, "dtrain: a sharded model was used after the end of its Parallel, in a forward or in a backward");
    return all;
  }

 private:
  std::weak_ptr<ParallelSharded> all_;
  Groups groups_;
};

void ParallelSharded::built(torch::nn::Module& module, UnitSite& site, const std::string& type) {
  if (auto unit = built_.add_unit(module, type))
    site.set_hooks(std::make_shared<Unit>(weak_from_this(), std::move(*unit)));
  for (const at::Tensor& each : module.parameters())
    holes_ += each.numel() * static_cast<std::int64_t>(each.element_size());
  if (holes_ < kMostHoles) return;
  holes_ = 0;
  give_back_holes();
}

void ParallelSharded::take(std::shared_ptr<torch::nn::Module> module) {
  module_ = std::move(module);
  built_.require_units();
  if (is_fsdp()) {
    root_ = built_.add_rest(*module_);
  } else {
    built_.add_buckets(*module_);
  }
  const std::vector<NamedParameter> parameters = parameters_of(*module_), buffers = buffers_of(*module_);
  // A parameter may need no gradient any more since its unit was made, on some rank.
  require_alike(settings_.everyone, parameters, buffers);
  // A unit that was just built knows its parameters by other names than the whole module does.
  ShardGroup::Names names;
  for (const auto& [name, parameter] : parameters) names.emplace(parameter.unsafeGetTensorImpl(), name);
  for (std::size_t g = 0; g < groups().size(); ++g) {
    groups()[g]->settle(
        names, [this, g] { gradient_comes(g); },
        [this, g] { carry_out(core_->gradient_came(g, groups()[g]->has_all_gradients())); });
  }
  const std::vector<UnshardCore::Facts> facts = built_.facts();
  TORCH_CHECK(std::any_of(facts.begin(), facts.end(), [](const auto& each) { return each.trains; }),
              "dtrain: Parallel needs a module with a parameter that requires a gradient");
  for (const NamedParameter& each : buffers) {
    if (each.tensor.device() != settings_.device) each.tensor.set_data(each.tensor.to(settings_.device));
    buffers_.push_back(each.tensor);
  }
  if (!buffers_.empty()) broadcast_all(settings_.everyone.process_group(), buffers_, 0);
  using Reduce = UnshardCore::Reduce;
  const Reduce usual = is_fsdp() ? Reduce::passed : Reduce::in_order;
  warn_if_nothing_fits_ahead(facts);
  // Where rows do not stay, each group on its way is a row more.
  core_.emplace(facts, is_fsdp() ? strategy_.prefetch : 0, strategy_.deterministic ? Reduce::at_end : usual,
                strategy_.prefetch_bytes, settings_.gradients_stay || strategy_.deterministic ? 2 : 1);
  streams_.emplace(settings_.device, core_->events());
  give_back_holes();
}

// The root is the first to be gathered, and so never gathered ahead in a forward.
void ParallelSharded::warn_if_nothing_fits_ahead(const std::vector<UnshardCore::Facts>& facts) const {
  if (!is_fsdp() || strategy_.prefetch == 0 || settings_.everyone.rank() != 0) return;
  std::int64_t smallest = UnshardCore::kAnyBytes;
  for (std::size_t g = 0; g < facts.size(); ++g) {
    const bool is_unit = std::find(root_.begin(), root_.end(), g) == root_.end();
    if (is_unit && facts[g].bytes > 0) smallest = std::min(smallest, facts[g].bytes);
  }
  if (smallest == UnshardCore::kAnyBytes || smallest <= strategy_.prefetch_bytes) return;
  TORCH_WARN("dtrain: no unit is gathered ahead: the strategy lets them have ", strategy_.prefetch_bytes,
             " bytes (prefetch_bytes, or DeepSpeed's stage3_prefetch_bucket_size), and the smallest unit has ",
             smallest, ". Choose more bytes, or set prefetch to 0");
}

std::vector<at::Tensor> ParallelSharded::parameters() {
  std::vector<at::Tensor> found;
  for (const auto& group : groups()) group->keep_gradients_wide();  // torch's optimizers read them
  for (const ShardRun& run : runs()) {
    if (run.values.numel() > 0) found.push_back(run.values);
  }
  return found;
}

CheckpointState ParallelSharded::state(const ShardedOptimizer* optimizer, Purpose purpose) {
  // The first of those that have the same part saves it.
  const bool first = !settings_.replicas || settings_.replicas.rank() == 0;
  return state_of(*module_, shards_of(groups()), optimizer, purpose, {settings_.everyone.rank(), 0, first});
}

void ParallelSharded::spread(bool weights, const ShardedOptimizer* optimizer) {
  if (settings_.replicas.size() > 1)
    broadcast_all(settings_.replicas.process_group(), rows_of(shards_of(groups()), weights, optimizer), 0);
  if (weights && !buffers_.empty()) broadcast_all(settings_.everyone.process_group(), buffers_, 0);
}

void ParallelSharded::zero_grad() {
  heed_failure();
  for (const auto& group : groups()) group->forget_gradients();
}

// With one copy, other ranks may still read what this rank is about to write.
void ParallelSharded::ready_to_step() {
  TORCH_CHECK(backward_.expired(), "dtrain: Parallel::step was called within backward");
  TORCH_CHECK(!core_->is_held(),
              "dtrain: Parallel::step, or load, was called while full_parameters() is alive: the parameters that it "
              "shows would be old");
  heed_failure();
  // Nobody reads the parts any more. A forward without a backward may have left groups whole, with what will be old.
  if (is_fsdp()) carry_out(core_->free_all());
  for (const auto& group : groups()) group->end_reads();
  if (settings_.one_copy()) settings_.host.barrier();
}

void ParallelSharded::end_step() {
  for (const auto& group : groups()) group->publish();
  carry_out(core_->updated());
  if (settings_.one_copy()) settings_.host.barrier();
}

void ParallelSharded::sync_buffers() {
  if (!broadcast_buffers_ || buffers_.empty() || !sync_) return;
  std::vector<at::Tensor> values;
  for (const at::Tensor& buffer : buffers_) values.push_back(buffer.variable_data());
  broadcast_all(settings_.everyone.process_group(), values, 0);
}

void ParallelSharded::before_forward(const Tensors& inputs) {
  for (const auto& group : groups()) group->require_as_settled();
  const bool learns = torch::GradMode::is_enabled();
  if (learns && backward_.expired()) {
    sync_buffers();
    forward_syncs_ = sync_;
  }
  heed_failure();
  core_->begin_forward(learns);
  unit_begins(root_, inputs);
}

void ParallelSharded::after_forward(const std::optional<Tensors>& outputs) {
  if (outputs) cast(*outputs, type_of(strategy_.output));
  unit_ends(root_, outputs);
}

void ParallelSharded::give_up() noexcept {
  try {
    carry_out(core_->free_all());
  } catch (const std::exception& /*error*/) {
    // The group is broken, and whatever comes next says so.
  }
}

void ParallelSharded::unit_failed(const Groups& unit) noexcept {
  try {
    if (!core_) return;
    for (const std::size_t group : unit) carry_out(core_->forward_failed(group));
  } catch (const std::exception& /*error*/) {
  }
}

void ParallelSharded::unit_begins(const Groups& unit, const Tensors& inputs) {
  TORCH_CHECK(core_, "dtrain: a unit was called while the model is built; Parallel must have all of it first");
  const bool learns = torch::GradMode::is_enabled();
  cast(inputs, settings_.compute);
  heed_failure();
  for (const std::size_t group : unit) carry_out(core_->before_forward(group, learns));
  // The root's gradients may come until the end.
  if (learns && &unit != &root_) unit_is_behind(unit, inputs);
}

void ParallelSharded::unit_is_behind(const Groups& unit, const Tensors& inputs) {
  call_behind(inputs, [self = weak_from_this(), unit] {
    const auto all = Unit::required(self);
    all->in_backward();
    for (const std::size_t group : unit) all->carry_out(all->core_->after_backward(group));
  });
}

void ParallelSharded::unit_ends(const Groups& unit, const std::optional<Tensors>& outputs) {
  using Return = UnshardCore::Return;
  Return back = is_fsdp() && is_first_run() ? Return::by_rerun : Return::never;
  if (torch::GradMode::is_enabled() && is_fsdp()) {
    const auto call = [self = weak_from_this(), unit] {
      const auto all = Unit::required(self);
      all->in_backward();
      for (const std::size_t group : unit) all->carry_out(all->core_->before_backward(group));
    };
    if (!outputs) back = Return::unannounced;
    if (outputs && call_before(*outputs, call)) back = Return::announced;
  }
  for (const std::size_t group : unit) carry_out(core_->after_forward(group, back));
}

// The engine destroys the callback with the backward that it belongs to, however that ends.
void ParallelSharded::in_backward() {
  if (!backward_.expired()) return;
  auto alive = std::make_shared<Backward>();
  backward_ = alive;
  for (const auto& group : groups()) group->expect_gradients();
  core_->begin_backward(std::exchange(forward_syncs_, std::nullopt).value_or(sync_));
  at_end_of_backward([self = weak_from_this(), alive = std::move(alive)]() mutable {
    alive.reset();
    Unit::required(self)->backward_ends();
  });
}

// Perhaps the last backward ended with an exception.
void ParallelSharded::heed_failure() {
  if (backward_.expired()) carry_out(core_->backward_failed());
}

void ParallelSharded::gradient_comes(std::size_t group) {
  in_backward();
  if (settings_.gradients_stay) carry_out(core_->before_gradient(group));
}

void ParallelSharded::backward_ends() {
  if (strategy_.deterministic) {
    for (const auto& group : groups()) group->end_micro_batch();
  }
  carry_out(core_->end_backward());
}

void ParallelSharded::carry_out(const UnshardCore::Actions& actions) {
  const bool aside = streams_->are_there();
  for (const UnshardCore::Action& action : actions) {
    ShardGroup& group = *groups()[action.group];
    if (!aside) {
      carry_out(action.what, group);
      continue;
    }
    streams_->carry_out(action, [&] {
      carry_out(action.what, group);
      // What the gather stream records then is that the group is whole.
      if (action.what == UnshardCore::Do::gather) group.join_gather();
    });
  }
}

void ParallelSharded::carry_out(UnshardCore::Do what, ShardGroup& group) {
  using Do = UnshardCore::Do;
  switch (what) {
    case Do::gather:
      return group.begin_gather();
    case Do::wait:
      return group.end_gather();
    case Do::free:
      return group.free();
    case Do::share_near:
      return group.share_near();
    case Do::reduce:
      return group.begin_reduce();
    case Do::average:
      return group.end_reduce();
    case Do::wait_reduced:
      return group.drop_row();
    case Do::updated:
    case Do::filled:
      return;
  }
}

}  // namespace

std::shared_ptr<ParallelCore> make_parallel_sharded(Session& session, const Strategy& strategy,
                                                    const ParallelOptions& options) {
  return std::make_shared<ParallelSharded>(session, strategy, options);
}

}  // namespace dtrain
