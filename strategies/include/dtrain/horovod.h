#pragma once
// Horovod's way of data parallel training, for programs that are written for it: the optimizer, and not the module,
// averages gradients over the ranks, each as soon as backward has it, in whatever order the ranks have them.
//
//   auto session = dtrain::init();
//   hvd::Context context(session);
//   hvd::broadcast_parameters(session, *net);
//   torch::optim::SGD sgd(net->parameters(), 0.1 * session.world_size());
//   hvd::DistributedOptimizer optimizer(context, sgd, net->named_parameters());
//   ...
//   loss_of(net->forward(x), y).backward();   // reductions begin
//   optimizer.step();                         // waits for them, then sgd.step()
//   optimizer.zero_grad();
//
// Horovod is that of Sergeev and Del Balso, "Horovod: fast and easy distributed deep learning in TensorFlow", 2018,
// arXiv:1802.05799. A step sends and receives about 2 (P - 1) / P times the bytes of the gradients, half of that with
// fp16 or bf16, and log2(P) times for Op::adasum. docs/strategies.md compares it with Ddp.
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/gradient_compression.h"
#include "dtrain/horovod_settings.h"
#include "dtrain/session.h"

namespace dtrain::hvd {

enum class Op {
  average,
  sum,
  // Adds what the ranks' gradients do not have in common and averages what they have: Maleki et al., "Scaling
  // Distributed Training with Adaptive Summation", 2020, arXiv:2006.02924. Of the gradients, tensor by tensor, in
  // double precision. The world size must be a power of two.
  adasum,
};

struct ReduceOptions {
  Op op = Op::average;
  GradientCompression compression = GradientCompression::none;
  // Op::average divides by this before the sum, and by world size / this after it. None: 1, but the world size with a
  // compression, so that the sum is in the narrow type's range.
  std::optional<double> predivide_factor{};
};

// A tensor on its way. Waiting more than once is fine, and so is never.
class Handle {
 public:
  // Until the tensor has its result on the caller's stream. Throws as Context::allreduce says.
  void wait() const;
  bool done() const;

  struct Arrival;  // opaque

 private:
  using Future = std::shared_future<std::shared_ptr<const Arrival>>;
  explicit Handle(Future future) : future_(std::move(future)) {}
  friend class Engine;
  Future future_;
};

class Engine;  // opaque

// The background thread that reduces tensors, and a process group of its own: nothing here gets in the way of the
// session's collectives. One is enough for many optimizers. It is over all ranks, or over a group, such as a mesh's
// dimension (Horovod's process sets): where this page says rank 0, world size or all ranks, they are the group's then,
// and its members alone make the calls. Errors name the session's ranks, and the group.
class Context {
 public:
  // Collective: every rank makes its contexts in the same order. With the HOROVOD_* variables, or the settings, of rank
  // 0. Throws ConfigError, std::runtime_error where the timeline cannot be written, c10::Error on a rank that is not in
  // the group, and as init().
  explicit Context(Session& session) : Context(session.world()) {}
  Context(Session& session, const Settings& settings) : Context(session.world(), settings) {}
  explicit Context(const Group& group);
  Context(const Group& group, const Settings& settings);
  // The context is over on all ranks: what is pending fails, and so does what comes later. Takes a tenth of a second,
  // or ten where another rank does not answer. In a process forked from this one it does nothing.
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // In the group.
  int rank() const;
  int world_size() const;

  // In place, and at once: leave the tensor alone until the handle is done. Dense floating tensors, and integers with
  // Op::sum; of one type and shape, and with the same options, on all ranks. Each rank submits the same names in any
  // order and from any thread; a name may be used again once it is done. Throws c10::Error for a tensor or a name that
  // is not taken. Handle::wait() throws CollectiveError, on every rank, where
  //   a rank submitted another type, shape or options (mismatched), or not at all for Settings::stall_failure
  //   (timed_out), ended its context (peer_left), or died.
  // After one the context is over.
  Handle allreduce(const at::Tensor& tensor, const std::string& name, const ReduceOptions& options = {});
  // Several, reduced when all ranks have all of them. `name` and their number are the same on all ranks.
  std::vector<Handle> grouped_allreduce(const std::vector<at::Tensor>& tensors, const std::string& name,
                                        const ReduceOptions& options = {});

  // Collective, for ranks with different numbers of steps: this rank has no more tensors, and takes part in the others'
  // reductions with zeros, until all ranks have joined. Averages are still over the world size. Op::adasum cannot be
  // used meanwhile. Returns the rank, as rank() counts, that joined last. Wait for this rank's handles first.
  int join();

 private:
  friend class DistributedOptimizer;
  std::unique_ptr<Engine> engine_;
};

struct OptimizerOptions {
  ReduceOptions reduce{};
  // Gradients are accumulated over so many backwards before they are reduced; the result is their sum.
  int backward_passes_per_step = 1;
  // Names of parameters that are reduced when all of a group are ready; the others go one by one.
  std::vector<std::vector<std::string>> groups{};
};

using NamedTensors = torch::OrderedDict<std::string, at::Tensor>;

// One thread at a time, and the same calls on every rank; backwards may be in any order. Errors of a reduction come out
// of backward, step and synchronize. Optimizers whose step() needs a closure (LBFGS) have nothing to gain here.
class DistributedOptimizer {
 public:
  // `optimizer` and `context` must outlive it. `named_parameters` has all parameters of the optimizer that need a
  // gradient, by the same names on all ranks. No collective.
  DistributedOptimizer(Context& context, torch::optim::Optimizer& optimizer, const NamedTensors& named_parameters,
                       const OptimizerOptions& options = {});
  ~DistributedOptimizer();
  DistributedOptimizer(const DistributedOptimizer&) = delete;
  DistributedOptimizer& operator=(const DistributedOptimizer&) = delete;

  // synchronize(), then the optimizer's step.
  void step();
  // Collective: submits what no backward has submitted, zeros for parameters without a gradient, and waits for all. To
  // look at or clip gradients before the step:
  //   optimizer.synchronize();
  //   torch::nn::utils::clip_grad_norm_(net->parameters(), 1.0);
  //   auto skip = optimizer.skip_synchronize();
  //   optimizer.step();
  void synchronize();
  // Refused while gradients are on their way.
  void zero_grad(bool set_to_none = true);

  // While it lives, step() does not synchronize.
  class SkipSynchronize {
   public:
    explicit SkipSynchronize(bool& skips) : skips_(skips) { skips_ = true; }
    ~SkipSynchronize() { skips_ = false; }
    SkipSynchronize(const SkipSynchronize&) = delete;
    SkipSynchronize& operator=(const SkipSynchronize&) = delete;

   private:
    bool& skips_;
  };
  [[nodiscard]] SkipSynchronize skip_synchronize();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Collectives of the group, or of the session: all its ranks get the values of `root`, a rank of the group. They throw
// CollectiveError, and std::runtime_error on every rank where one has other names, types or shapes, with the session's
// ranks. Bytes and algorithm are those of Group::broadcast: of the root's names, types and shapes as text, and then of
// the tensors, those of one type packed into messages of up to 250 MiB.
void broadcast_parameters(const Group& group, const NamedTensors& tensors, int root = 0);
// Parameters and buffers.
void broadcast_parameters(const Group& group, const torch::nn::Module& module, int root = 0);
// State and options (momentum buffers, step counts, learning rates), of optimizers of one kind over the same
// parameters. The others need not have made a step; what they have is replaced. One Group::broadcast of what torch's
// serialization writes, from CPU memory.
void broadcast_optimizer_state(const Group& group, torch::optim::Optimizer& optimizer, int root = 0);

inline void broadcast_parameters(Session& session, const NamedTensors& tensors, int root = 0) {
  broadcast_parameters(session.world(), tensors, root);
}
inline void broadcast_parameters(Session& session, const torch::nn::Module& module, int root = 0) {
  broadcast_parameters(session.world(), module, root);
}
inline void broadcast_optimizer_state(Session& session, torch::optim::Optimizer& optimizer, int root = 0) {
  broadcast_optimizer_state(session.world(), optimizer, root);
}

}  // namespace dtrain::hvd
