#pragma once
// Ddp: data parallel training of a module. Every rank has the whole model and a part of each batch; gradients are
// averaged over the ranks while backward still runs, in buckets.
//
//   dtrain::Ddp model(session, Net());
//   auto loss = loss_of(model(x), y);   // forward through the wrapper
//   loss.backward();                    // gradients are the same on every rank when it returns
//   optimizer.step();
//
// Every parameter that needs a gradient must take part in every forward. Parameters are dense, of any floating type,
// and on one device. One thread at a time, and forward and backward in the same order on every rank. Errors of a
// collective come out of forward and backward as CollectiveError; training cannot go on after one.
#include <cstdint>
#include <memory>
#include <utility>

#include "dtrain/session.h"

namespace dtrain {

struct DdpOptions {
  // Gradients of this many bytes are reduced together. Larger: fewer collectives; smaller: they start earlier.
  std::int64_t bucket_bytes = 25 * 1024 * 1024;
  // The first bucket to be reduced, small so that communication starts early.
  std::int64_t first_bucket_bytes = 1024 * 1024;
  // Gradients live in the buckets: one copy less of all gradients. Then clear them with Ddp::zero_grad: the zero_grad
  // of torch's C++ optimizers and modules detaches gradients in place, which such views refuse.
  bool gradient_as_bucket_view = false;
  // Copy rank 0's buffers (running means of batch norm) to all ranks before each forward that synchronises.
  bool broadcast_buffers = true;
};

// Ddp without the module's type.
class DdpCore {
 public:
  // Collective: checks that all ranks have the same parameters and copies rank 0's values to all.
  DdpCore(Session& session, torch::nn::Module& module, const DdpOptions& options);
  ~DdpCore();
  DdpCore(const DdpCore&) = delete;
  DdpCore& operator=(const DdpCore&) = delete;

  void before_forward();
  void after_forward();
  bool set_sync(bool sync);  // returns what it was
  void zero_grad();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

template <class Module>
class Ddp {
 public:
  Ddp(Session& session, std::shared_ptr<Module> module, const DdpOptions& options = {})
      : module_(std::move(module)), core_(std::make_unique<DdpCore>(session, *module_, options)) {}
  // For the holders that TORCH_MODULE makes.
  Ddp(Session& session, const torch::nn::ModuleHolder<Module>& holder, const DdpOptions& options = {})
      : Ddp(session, holder.ptr(), options) {}

  // The module's forward. Collective where gradients are enabled and no NoSync is alive: every rank must then call
  // backward on the result.
  template <class... Args>
  auto operator()(Args&&... args) {
    core_->before_forward();
    auto output = module_->forward(std::forward<Args>(args)...);
    core_->after_forward();
    return output;
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
