#pragma once
// Ddp: data parallel training of a module. Every rank of the session, or of a group, has the whole model and a part of
// each batch. Ddp averages the gradients over these ranks, in buckets, while backward still runs.
//
//   dtrain::Ddp model(session, Net());
//   auto loss = loss_of(model(x), y);   // forward through the wrapper
//   loss.backward();                    // gradients are the same on every rank when it returns
//   optimizer.step();
//
// Every parameter that requires a gradient must take part in every forward, unless find_unused_parameters or
// static_graph is set. Parameters are dense, of a floating or complex type, and on one device. Their gradients are
// dense: backward throws ConfigError for a sparse one. One thread at a time may use a Ddp. Every rank makes its
// forwards and backwards in the same order. Without static_graph, backward throws ConfigError if the gradient of a
// parameter comes twice after one forward: only the first would be averaged. If a collective fails, forward or
// backward throws CollectiveError, and training cannot go on.
//
// The buckets, and their overlap with backward, follow Li et al., "PyTorch Distributed: Experiences on Accelerating
// Data Parallel Training", VLDB 2020. A step sends and receives about 2 (P - 1) / P times the bytes of the gradients,
// for P ranks. With fp16 or bf16 it is half of that for float32 gradients. power_sgd.h says how much it is with
// PowerSGD.
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

// A function that averages one bucket, in place of Ddp's all-reduce. The value of the future is a tensor with the
// averaged gradients. It has the size and type of bucket.getBuffer(), and may be that buffer itself. Ddp calls the
// function on the thread of backward, for the same buckets in the same order on every rank. If it throws, backward
// throws the same.
using BucketHook = std::function<c10::intrusive_ptr<c10::ivalue::Future>(c10d::GradBucket& bucket)>;

struct DdpOptions {
  // Gradients of this many bytes are reduced together. With larger buckets there are fewer collectives. With smaller
  // ones the collectives start earlier.
  std::int64_t bucket_bytes = 25 * 1024 * 1024;
  // Bytes of the first bucket. It is small, so that communication starts early.
  std::int64_t first_bucket_bytes = 1024 * 1024;
  // Gradients are views of the buckets. This saves one copy of all gradients.
  bool gradient_as_bucket_view = false;
  // Copy rank 0's buffers (running means of batch norm) to all ranks before each forward that synchronises.
  bool broadcast_buffers = true;
  // Some parameters take no part in some forwards. Each forward walks the graph of its output, and each backward has
  // one more collective. A parameter that no rank has used keeps the gradient that it had. output_tensors.h must know
  // the type of the output. The loss may leave outputs out. If there are several outputs, one backward goes through all
  // of them. So call backward once for each forward, on one loss. A hook or a retained gradient of an output then sees
  // only the uses of that output outside of the module.
  bool find_unused_parameters = false;
  // The same parameters take part in every forward, in the same way. The first backward learns which ones. Parameters
  // that are never used, and parameters that are used several times (checkpointing), are then allowed, at no further
  // cost. output_tensors.h must know the type of the output.
  bool static_graph = false;
  // Set at most one of the next three. With a compression, gradients are divided by the number of ranks before they are
  // made narrower.
  GradientCompression compression = GradientCompression::none;
  std::optional<PowerSgd> power_sgd{};  // its own group forms with the Ddp and ends with the session
  BucketHook hook{};
  // Call verify_sync() before every n-th forward that synchronises. 0: never.
  std::int64_t verify_every = 0;
};

// The part of Ddp that does not depend on the module's type. Programs use Ddp.
class DdpCore {
 public:
  // Collective of the group. Checks that all ranks have the same parameters and buffers, and copies those of the
  // group's first rank to all ranks. Throws ConfigError if options do not fit together. Throws DivergedError on every
  // rank if the modules differ; it names the first difference.
  DdpCore(const Group& group, torch::nn::Module& module, const DdpOptions& options);
  ~DdpCore();
  DdpCore(const DdpCore&) = delete;
  DdpCore& operator=(const DdpCore&) = delete;

  void before_forward();
  // `outputs`: the tensors that forward returned; none if they are not known. They may be replaced by other tensors
  // with the same values.
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
  // Collective, as DdpCore's constructor. Averages over all ranks of the session. Throws ConfigError if the launcher
  // asks for another strategy (strategy.h), or for keys of one: Parallel (parallel.h) can carry them out, and Ddp
  // cannot.
  Ddp(Session& session, std::shared_ptr<Module> module, const DdpOptions& options = {})
      : Ddp(session.world_for_ddp("dtrain::Ddp"), std::move(module), options) {}
  // Averages over a group, such as a dimension of a mesh. "Rank 0", "world size" and "all ranks" in this header are
  // then those of the group.
  Ddp(const Group& group, std::shared_ptr<Module> module, const DdpOptions& options = {})
      : module_(std::move(module)), core_(std::make_unique<DdpCore>(group, *module_, options)) {}
  // The same for the holders that TORCH_MODULE makes. The Ddp and the holder share the module.
  Ddp(Session& session, const torch::nn::ModuleHolder<Module>& holder, const DdpOptions& options = {})
      : Ddp(session.world_for_ddp("dtrain::Ddp"), holder.ptr(), options) {}
  Ddp(const Group& group, const torch::nn::ModuleHolder<Module>& holder, const DdpOptions& options = {})
      : Ddp(group, holder.ptr(), options) {}

  // The module's forward. If gradients are enabled and no NoSync is alive, it is a collective, and every rank must call
  // backward on the result. Several forwards may come before one backward. Throws c10::Error if a parameter had no part
  // in the last backward, or if a forward under NoSync follows a forward whose backward was left out.
  template <class... Args>
  auto operator()(Args&&... args) {
    core_->before_forward();
    auto output = module_->forward(std::forward<Args>(args)...);
    core_->after_forward(output_tensors(output));
    return output;
  }

  // Collective. Throws DivergedError on every rank if a parameter, frozen or not, differs from rank 0's in one bit. The
  // error names the first such parameter. Buffers are not compared. Reads all parameters once, and sends 8 bytes for
  // each parameter to all ranks.
  void verify_sync() { core_->verify_sync(); }

  // Collective. Runs `train`, in which ranks may take different numbers of steps, or none. A rank that is done takes
  // part in the steps of the others, with gradients of zero, until all ranks are done. Then all ranks get the
  // parameters and buffers of a rank that was done last. Gradients are divided by the world size. With
  // average_over_active they are divided by the number of ranks that still train; this throws ConfigError with
  // compression or power_sgd. With static_graph, a rank that has never taken a step throws if others take one. `train`
  // must make no collectives other than those of this Ddp. verify_every does nothing in it. If `train` throws on a
  // rank, the others wait for that rank until it leaves.
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

  // Clear all gradients of the module, as an optimizer's zero_grad() does. No collective.
  void zero_grad() { core_->zero_grad(); }

  // The module itself, for evaluation, names, or module().save(archive). torch::save() takes a shared_ptr or a holder,
  // not this reference.
  Module& module() { return *module_; }
  Module* operator->() { return module_.get(); }

  // While it lives, gradients are accumulated on each rank and are not reduced. The first backward after it reduces
  // their sum.
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
