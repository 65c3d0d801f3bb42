#pragma once
// Ddp: data parallel training of a module. Every rank of the session, or of a group, has the whole model and a part of
// each batch; gradients are averaged over those ranks while backward still runs, in buckets.
//
//   dtrain::Ddp model(session, Net());
//   auto loss = loss_of(model(x), y);   // forward through the wrapper
//   loss.backward();                    // gradients are the same on every rank when it returns
//   optimizer.step();
//
// Every parameter that needs a gradient must take part in every forward, but for find_unused_parameters and
// static_graph. Parameters are dense, of any floating type, and on one device. One thread at a time, and forward and
// backward in the same order on every rank. Errors of a collective come out of forward and backward as CollectiveError;
// training cannot go on after one.
//
// The bucketing and its overlap with backward are those of Li et al., "PyTorch Distributed: Experiences on Accelerating
// Data Parallel Training", VLDB 2020; a step sends and receives about 2 (P - 1) / P times the bytes of the gradients,
// half of that with fp16 or bf16, and what power_sgd.h says with PowerSGD.
#include <cstdint>
#include <functional>
#include <memory>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <utility>

#include "dtrain/gradient_compression.h"
#include "dtrain/output_tensors.h"
#include "dtrain/power_sgd.h"
#include "dtrain/session.h"

namespace dtrain {

// Reduces one bucket instead of the all-reduce: the future's value is the tensor of the averaged gradients, of the size
// and type of bucket.getBuffer(), which it may be. Called on the thread of backward, for the same buckets in the same
// order on every rank; what it throws comes out of backward.
using BucketHook = std::function<c10::intrusive_ptr<c10::ivalue::Future>(c10d::GradBucket& bucket)>;

struct DdpOptions {
  // Gradients of this many bytes are reduced together. Larger: fewer collectives; smaller: they start earlier.
  std::int64_t bucket_bytes = 25 * 1024 * 1024;
  // The first bucket to be reduced, small so that communication starts early.
  std::int64_t first_bucket_bytes = 1024 * 1024;
  // Gradients live in the buckets: one copy less of all gradients.
  bool gradient_as_bucket_view = false;
  // Copy rank 0's buffers (running means of batch norm) to all ranks before each forward that synchronises.
  bool broadcast_buffers = true;
  // Some parameters take no part in some forwards. Each forward walks the graph of its output, and each backward has
  // one more collective; a parameter that no rank has used keeps the gradient it had. The output must be of a kind that
  // output_tensors.h knows. The loss may leave outputs out: where there are several, one backward goes through all of
  // them, so it must come from one loss, and hooks and retained gradients of an output see only its uses outside of the
  // module.
  bool find_unused_parameters = false;
  // The same parameters take part in every forward, in the same way: which ones is learnt in the first backward. Allows
  // unused parameters, and several uses of one (checkpointing), at no further cost. The output as above.
  bool static_graph = false;
  // One of these three. With a compression, gradients are divided by the number of ranks before that.
  GradientCompression compression = GradientCompression::none;
  std::optional<PowerSgd> power_sgd{};  // in a group of its own, which is formed with the Ddp and lives on after it
  BucketHook hook{};
  // Before every so many forwards that synchronise, verify_sync(). 0: never.
  std::int64_t verify_every = 0;
};

// Ddp without the module's type.
class DdpCore {
 public:
  // Collective of the group: checks that all ranks have the same parameters and buffers, and copies those of its first
  // one to all. Throws ConfigError for options that do not fit together, and DivergedError on every rank where the
  // modules differ, which names the first difference.
  DdpCore(const Group& group, torch::nn::Module& module, const DdpOptions& options);
  ~DdpCore();
  DdpCore(const DdpCore&) = delete;
  DdpCore& operator=(const DdpCore&) = delete;

  void before_forward();
  // `outputs`: the tensors that forward returned, which may become others; none if they are not known.
  void after_forward(const std::optional<std::vector<at::Tensor*>>& outputs);
  void verify_sync();
  void begin_join(bool average_over_active);
  void end_join();
  void drop_join();
  bool set_sync(bool sync);  // returns what it was
  void zero_grad();

 private:
  struct State;
  void watch_gradients();
  void rebuild_buckets();
  void count_buckets();
  void learn_graph(const std::vector<at::Tensor*>& outputs);
  void sync_buffers(bool active);
  int any_of_those(bool me);
  bool someone_trains();
  void shadow_step();
  std::unique_ptr<State> state_;
};

template <class Module>
class Ddp {
 public:
  // Over all ranks.
  Ddp(Session& session, std::shared_ptr<Module> module, const DdpOptions& options = {})
      : Ddp(session.world(), std::move(module), options) {}
  // Over a group, such as a mesh's dimension: where this page says rank 0, world size or all ranks, they are the
  // group's.
  Ddp(const Group& group, std::shared_ptr<Module> module, const DdpOptions& options = {})
      : module_(std::move(module)), core_(std::make_unique<DdpCore>(group, *module_, options)) {}
  // For the holders that TORCH_MODULE makes.
  Ddp(Session& session, const torch::nn::ModuleHolder<Module>& holder, const DdpOptions& options = {})
      : Ddp(session.world(), holder.ptr(), options) {}
  Ddp(const Group& group, const torch::nn::ModuleHolder<Module>& holder, const DdpOptions& options = {})
      : Ddp(group, holder.ptr(), options) {}

  // The module's forward. Collective where gradients are enabled and no NoSync is alive: every rank must then call
  // backward on the result.
  template <class... Args>
  auto operator()(Args&&... args) {
    core_->before_forward();
    auto output = module_->forward(std::forward<Args>(args)...);
    core_->after_forward(output_tensors(output));
    return output;
  }

  // Collective: throws DivergedError on every rank if a parameter, frozen or not, differs from rank 0's by one bit, and
  // names the first one. Reads all parameters once; 8 bytes for each go to all ranks.
  void verify_sync() { core_->verify_sync(); }

  // Collective: run `train`, in which ranks may take different numbers of steps, none too. A rank that is done takes
  // part in the others' steps with gradients of zero until all are done; then all get the parameters and buffers of one
  // that was done last. Gradients are divided by the world size, or by the number of ranks that still train (not with
  // compression or power_sgd: ConfigError). With static_graph a rank that has never taken a step throws where others
  // take one. There are no other collectives in `train` but those of this Ddp, and verify_every does nothing. If a rank
  // throws, the others wait for it until it leaves.
  template <class Train>
  void join(Train train, bool average_over_active = false) {
    core_->begin_join(average_over_active);
    try {
      train();
    } catch (...) {
      core_->drop_join();
      throw;
    }
    core_->end_join();
  }

  // Forget all gradients of the module.
  void zero_grad() { core_->zero_grad(); }

  Module& module() { return *module_; }
  Module* operator->() { return module_.get(); }

  // While it lives, gradients are accumulated on each rank and not reduced; the first backward after it reduces the
  // sum.
  class NoSync {
   public:
    explicit NoSync(DdpCore& core) : core_(core), before_(core.set_sync(false)) {}
    ~NoSync() { core_.set_sync(before_); }
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    DdpCore& core_;
    bool before_;
  };
  [[nodiscard]] NoSync no_sync() { return NoSync(*core_); }

 private:
  std::shared_ptr<Module> module_;
  std::unique_ptr<DdpCore> core_;
};

}  // namespace dtrain
