#pragma once
// Parallel: one training loop for all strategies (strategy.h). The program builds its model, and the strategy says how
// the ranks share it: `dtrain run --nproc 4 --strategy fsdp ./train` needs no change in ./train.
//
//   dtrain::Parallel model(session, [&] { return Gpt(options); });
//   torch::optim::AdamW optimizer(model.parameters());
//   ...
//   model.zero_grad();
//   auto loss = loss_of(model(x), y);   // forward through the wrapper
//   loss.backward();
//   model.clip_grad_norm(1.0);
//   model.step(optimizer);
//
// The gradients are averages over all ranks, as Ddp's are. With fsdp, the units of the model (unit.h) are sharded one
// by one, each as soon as it is made within the function that Parallel calls; so no rank ever has the whole model. What
// belongs to no unit is one more group. All ranks build the same model, and get rank 0's values. Every rank makes the
// same forwards and backwards in the same order, and runs the same units in them. One thread at a time may use a
// Parallel; backward may run on autograd's threads.
//
// With zero1, zero2 and fsdp the optimizer updates parameters(), which are not the parameters of the module: they are
// this rank's parts, rows of elements side by side. So one of torch's optimizers for them works element by element, as
// SGD, Adam, AdamW and Adagrad do. optimizer() makes a ShardedOptimizer (optimizer.h), which knows all parameters by
// name, is faster, and has LAMB and Muon too. save() and load() keep and restore both, under any strategy and with any
// number of ranks. Parameters without a gradient are not among them. A parameter that a backward does not reach
// has a gradient of zero; ddp refuses such parameters unless its key find_unused_parameters is true. If a collective
// fails, a call throws CollectiveError, and training cannot go on.
//
// Parallel moves the model to the device that trains it (ParallelOptions). What the function that builds the model has
// decided stays: which parameters need a gradient, their types and their memory. A forward throws ConfigError if that
// has changed, and so does a Parallel of parameters that another one has.
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "dtrain/checkpoint.h"
#include "dtrain/ddp.h"
#include "dtrain/group.h"
#include "dtrain/kept_state.h"
#include "dtrain/optimizer.h"
#include "dtrain/placement.h"
#include "dtrain/progress.h"
#include "dtrain/session.h"
#include "dtrain/shards.h"
#include "dtrain/strategy.h"
#include "dtrain/unit.h"

namespace dtrain {

struct ParallelOptions {
  // Empty: what the launcher, or DTRAIN_STRATEGY, says.
  std::optional<Strategy> strategy{};
  // How a parameter lies on the ranks, by its name and itself. Empty: by rows. ddp does not ask. fsdp asks when a unit
  // is made: the name of a unit's parameter is then its name in the unit.
  std::function<Placement(const std::string& name, const torch::Tensor& parameter)> placement{};
  // Where the model is trained. Empty: session.device(). Parallel moves parameters and buffers there, and a unit as
  // soon as it is made; inputs are the program's.
  std::optional<torch::Device> device{};
  // Copy rank 0's buffers (running means of batch norm) to all ranks before each forward with gradients.
  bool broadcast_buffers = true;
};

// The part of Parallel that does not depend on the module's type. Programs use Parallel.
class ParallelCore : public UnitHooks {
 public:
  ~ParallelCore() override { copy_.wait(); }
  // Collective.
  static std::shared_ptr<ParallelCore> make(Session& session, const ParallelOptions& options);
  // What hears of the units while the model is built. Null: nobody needs to.
  virtual UnitBuilder* builder() { return nullptr; }
  // Collective: the model is built.
  virtual void take(std::shared_ptr<torch::nn::Module> module) = 0;

  virtual const Strategy& strategy() const = 0;
  virtual std::vector<at::Tensor> parameters() = 0;
  // With values.grad() of a rank's parts: as they were reduced, and so perhaps in a narrower type and not clipped yet.
  virtual std::vector<ShardRun> runs() = 0;
  virtual std::vector<at::Tensor> gradients() = 0;  // one for each run, as the program sees them
  // The optimizer's step, with the gradients as they are kept.
  virtual void update(ShardedOptimizer& optimizer) { optimizer.step(gradients()); }
  virtual SumOverRanks sum() const = 0;  // over the ranks that have the other shards
  virtual Group everyone() const = 0;    // all ranks
  // What of the model and the optimizer this rank saves, reads from files, keeps in memory, or fills from there.
  enum class Purpose { save, load, keep, restore };
  virtual CheckpointState state(const ShardedOptimizer* optimizer, Purpose purpose) = 0;
  // Collective. What one rank alone has read from files goes to all that have it too: of parameters and buffers, if
  // `weights`, and of the state of an optimizer, if there is one.
  virtual void spread(bool weights, const ShardedOptimizer* optimizer) = 0;
  virtual bool set_sync(bool sync) = 0;  // returns what it was
  virtual void zero_grad() = 0;
  virtual torch::Tensor clip_grad_norm(double max_norm, double norm_type) = 0;
  // Before parameters or state change: waits until a save in the background has copied them.
  void begin_step() {
    copy_.wait();
    ready_to_step();
  }
  virtual void end_step() = 0;
  PendingCopy save_async(Checkpoints& checkpoints, std::int64_t step, ShardedOptimizer& optimizer, std::string extra);
  void wait_for_copy() { copy_.wait(); }
  void load_weights(const std::string& path, const LoadOptions& options);
  void load_state(const std::string& path, ShardedOptimizer& optimizer, const LoadOptions& options);
  virtual void gather_all() = 0;
  virtual void free_all() = 0;

  // For runs(), with its state where the strategy says.
  ShardedOptimizer optimizer(ShardedOptimizerOptions options);
  // Throws ConfigError if the strategy says where the state lies, and the program does not step such an optimizer.
  void require_state_in_place(bool is_of_torch);

 private:
  virtual void ready_to_step() = 0;

  bool made_optimizer_ = false;
  PendingCopy copy_;  // of the last save in the background
};

namespace detail {

template <class Module>
std::shared_ptr<Module> pointer_to(std::shared_ptr<Module> module) {
  return module;
}
template <class Impl>
std::shared_ptr<Impl> pointer_to(const torch::nn::ModuleHolder<Impl>& holder) {
  return holder.ptr();
}
template <class Build>
using Built = typename decltype(pointer_to(std::declval<std::invoke_result_t<Build>>()))::element_type;

}  // namespace detail

// The optimizer goes on with the counts of updates that the state has.
void restore(ShardedOptimizer& optimizer, const CheckpointState& state);

template <class Module>
class Parallel {
 public:
  // Collective of the session. `build` makes the model and returns it, as a holder or a shared pointer. Throws
  // ConfigError if the strategy cannot be carried out, and says why. Throws DivergedError on every rank if the ranks
  // built different models.
  template <class Build>
  requires std::is_invocable_v<Build> Parallel(Session& session, Build build, const ParallelOptions& options = {})
      : core_(ParallelCore::make(session, options)) {
    {
      const Building building(core_->builder());
      module_ = detail::pointer_to(build());
    }
    core_->take(module_);
  }

  // The module's forward. A collective.
  template <class... Args>
  auto operator()(Args&&... args) {
    return detail::call_with_hooks<Args...>(
        core_, [this](auto&&... each) { return module_->forward(std::forward<decltype(each)>(each)...); },
        std::forward<Args>(args)...);
  }

  // What this rank's optimizer updates: tensors of one dimension, or with ddp the module's parameters. Each has its
  // gradient when backward has returned. The tensors stay the same. Once this was called, gradients that were reduced
  // in a narrower type are kept in the type of their parameters, as torch's optimizers want them: with bfloat16 that
  // takes 2 bytes more for each element of a rank's part. ShardedOptimizer reads them as they are.
  std::vector<torch::Tensor> parameters() const { return core_->parameters(); }
  // The same as rows of one dimension, with the names of the parameters, and where each part begins. These tensors
  // share the memory of parameters(), but have no gradients: gradients() has them.
  std::vector<ShardRun> runs() const {
    std::vector<ShardRun> found = core_->runs();
    for (ShardRun& each : found) each.values = each.values.detach();
    return found;
  }

  // The gradients of runs(), one for each: rows of one dimension, of the type of the values, or undefined tensors.
  // What is written to them counts. GradScaler wants them:
  // model.step([&] { scaler.step(optimizer, model.gradients()); }).
  std::vector<torch::Tensor> gradients() const { return core_->gradients(); }
  // Adds a tensor up over the ranks that have the other parts, for GradScaler and clip_by_global_norm(); empty with
  // ddp.
  SumOverRanks sum() const { return core_->sum(); }

  // No collective. An optimizer for these runs, with its state where the strategy says (state_folder). Throws
  // ConfigError as the constructor of ShardedOptimizer does, if the options say another place, and for LAMB if the
  // strategy is deterministic.
  ShardedOptimizer optimizer(const ShardedOptimizerOptions& options) const { return core_->optimizer(options); }
  ShardedOptimizer optimizer(const OptimizerOptions& algorithm) const {
    return optimizer(ShardedOptimizerOptions{.algorithm = algorithm});
  }

  // Collective. The optimizer's step, on parameters(). Then the ranks have each other's new values.
  // Throws ConfigError if the strategy has a state_folder, and the optimizer is not one that optimizer() has made.
  void step(torch::optim::Optimizer& optimizer) {
    core_->require_state_in_place(true);
    step([&] { optimizer.step(); });
  }
  void step(ShardedOptimizer& optimizer) {
    step([&] { core_->update(optimizer); });
  }
  template <class Update>
  requires std::is_invocable_v<Update>
  void step(Update update) {
    core_->require_state_in_place(false);
    core_->begin_step();
    update();
    core_->end_step();
    detail::step_done();
  }

  // Collective. Scales all gradients so that their norm over the whole model is at most `max_norm`. Returns the norm
  // that they had, a scalar. `norm_type`: 2, or infinity for the largest element.
  torch::Tensor clip_grad_norm(double max_norm, double norm_type = 2) {
    return core_->clip_grad_norm(max_norm, norm_type);
  }

  // Collective. Saves the parameters, the buffers and the optimizer's state as the checkpoint of this step. The names
  // and shapes are those of the module, whatever the strategy: so another strategy, or another number of ranks, loads
  // it. `extra` is JSON of the program. Buffers are rank 0's. Throws CheckpointError.
  void save(Checkpoints& checkpoints, std::int64_t step, const ShardedOptimizer& optimizer, std::string extra = {}) {
    CheckpointState state = core_->state(&optimizer, ParallelCore::Purpose::save);
    state.step = step;
    state.extra = std::move(extra);
    checkpoints.save(state);
  }
  // Collective. As save(), but returns at once: while forwards and backwards run, a thread copies this rank's
  // parameters and the optimizer's state, and then writes them (Checkpoints::save_async()). The checkpoint is that of
  // the call: the buffers, which a forward may change, are copied before the call returns, and so is what lies on a
  // GPU. The next step(), load(), load_weights() or full_parameters(), a step or load of this optimizer and the
  // destructor wait until the rest is copied, and help. Whoever changes parameters or state in another way calls wait()
  // of the result first.
  PendingCopy save_async(Checkpoints& checkpoints, std::int64_t step, ShardedOptimizer& optimizer,
                         std::string extra = {}) {
    return core_->save_async(checkpoints, step, optimizer, std::move(extra));
  }
  // Collective. Loads the newest checkpoint; nothing if there is none. Throws CheckpointError, also if there are
  // checkpoints and all are damaged: training must not begin anew then.
  std::optional<Loaded> load(Checkpoints& checkpoints, ShardedOptimizer& optimizer, const LoadOptions& options = {}) {
    if (!checkpoints.latest()) return std::nullopt;
    return fill(optimizer, ParallelCore::Purpose::load,
                [&](CheckpointState& state) { return checkpoints.load(state, options); });
  }

  // Collective. Loads the parameters and the buffers, and nothing of an optimizer, from a file or a folder in
  // safetensors, as Transformers saves models (load_safetensors() in checkpoint.h). A part of each file is read by each
  // rank. Throws CheckpointError; the values are undefined then.
  void load_weights(const std::string& path, const LoadOptions& options = {}) { core_->load_weights(path, options); }

  // Collective. Loads the optimizer's state from safetensors: tensors "<parameter>.<state>", as a checkpoint of dtrain
  // has them, or as torch.distributed.checkpoint writes what get_optimizer_state_dict() gives (with the prefix
  // "state."). `path` is a file or a folder, as for load_weights(). The counts of updates may have any type.
  // Optimizers whose counts torch does not save (SGD, Muon) go on as after a first update. Throws CheckpointError.
  void load_state(const std::string& path, ShardedOptimizer& optimizer, const LoadOptions& options = {}) {
    core_->load_state(path, optimizer, options);
  }

  // No collective. Keeps this rank's part of what save() saves, and its own buffers, in the launcher's memory
  // (kept_state.h); nothing if there is none. With ddp the ranks keep the model once among them. Throws
  // CheckpointError.
  void keep(KeptState& kept, std::int64_t step, const ShardedOptimizer& optimizer, std::string extra = {}) {
    if (!kept.here()) return;
    CheckpointState state = core_->state(&optimizer, ParallelCore::Purpose::keep);
    state.step = step;
    state.extra = std::move(extra);
    kept.keep(state);
  }
  // Collective. Goes on from the kept state, if it is not older than the newest checkpoint; else loads that one, and
  // Loaded::skipped says why the kept state was not used, if there was one. Nothing if there is neither. If the kept
  // state cannot be used, and there are checkpoints and all are damaged, it throws CheckpointError.
  std::optional<Loaded> load(Checkpoints& checkpoints, KeptState& kept, ShardedOptimizer& optimizer,
                             const LoadOptions& options = {}) {
    auto loaded = load(kept, optimizer, checkpoints.latest_undamaged().value_or(0));
    if (loaded) return loaded;
    loaded = load(checkpoints, optimizer, options);
    if (loaded && !kept.refused().empty()) loaded->skipped.insert(loaded->skipped.begin(), kept.refused());
    return loaded;
  }
  // Collective. From the kept state alone.
  std::optional<Loaded> load(KeptState& kept, ShardedOptimizer& optimizer, std::int64_t at_least = 0) {
    return fill(optimizer, ParallelCore::Purpose::restore, [&](CheckpointState& state) {
      const CheckpointState own = core_->state(&optimizer, ParallelCore::Purpose::keep);
      return kept.restore(state, &own, at_least);
    });
  }

  // Clears all gradients. No collective. zero_grad() of an optimizer on parameters() does the same; zero_grad() of the
  // module does not reach the gradients of zero1, zero2 and fsdp.
  void zero_grad() { core_->zero_grad(); }

  // While it lives, gradients are accumulated on each rank, whole, and are not reduced. The first backward after it
  // reduces their sum. Without it, each backward reduces its own gradients, and parts of the sum are accumulated. What
  // counts is whether the forward was within it.
  class NoSync {
   public:
    explicit NoSync(ParallelCore& core) : core_(core), before_(core.set_sync(false)) {}
    ~NoSync() { core_.set_sync(before_); }
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    ParallelCore& core_;
    bool before_;
  };
  [[nodiscard]] NoSync no_sync() { return NoSync(*core_); }

  // Collective, as is the destructor. While it lives, all parameters of the module are whole on every rank, and may be
  // read: to save the module, or to use it without the wrapper. Forwards and backwards may come in between. A step, or
  // load(), throws. One may lie in another.
  class FullParameters {
   public:
    explicit FullParameters(ParallelCore& core) : core_(core) {
      core_.wait_for_copy();
      core_.gather_all();
    }
    ~FullParameters() { core_.free_all(); }
    FullParameters(const FullParameters&) = delete;
    FullParameters& operator=(const FullParameters&) = delete;

   private:
    ParallelCore& core_;
  };
  [[nodiscard]] FullParameters full_parameters() { return FullParameters(*core_); }

  const Strategy& strategy() const { return core_->strategy(); }
  // For functions that take any Parallel.
  ParallelCore& core() { return *core_; }
  Module& module() { return *module_; }
  Module* operator->() { return module_.get(); }

 private:
  // Collective. `read` fills a state, or returns nothing.
  template <class Read>
  std::optional<Loaded> fill(ShardedOptimizer& optimizer, ParallelCore::Purpose purpose, Read read) {
    core_->begin_step();
    CheckpointState state = core_->state(&optimizer, purpose);
    std::optional<Loaded> loaded = read(state);
    if (!loaded) return loaded;
    if (purpose == ParallelCore::Purpose::load) core_->spread(true, &optimizer);
    restore(optimizer, state);
    core_->end_step();
    return loaded;
  }

  class Building {
   public:
    explicit Building(UnitBuilder* builder) : before_(UnitBuilder::set_current(builder)) {}
    ~Building() { UnitBuilder::set_current(before_); }
    Building(const Building&) = delete;
    Building& operator=(const Building&) = delete;

   private:
    UnitBuilder* before_;
  };
  std::shared_ptr<ParallelCore> core_;
  std::shared_ptr<Module> module_;
};

template <class Build>
Parallel(Session&, Build) -> Parallel<detail::Built<Build>>;
template <class Build>
Parallel(Session&, Build, ParallelOptions) -> Parallel<detail::Built<Build>>;

}  // namespace dtrain
