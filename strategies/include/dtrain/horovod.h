#pragma once
// Horovod's way of data parallel training, for programs that are written for it. The optimizer averages the gradients
// over the ranks, not the module. It begins with each gradient as soon as backward has it. The ranks may have their
// gradients in different orders.
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
// Horovod: Sergeev and Del Balso, "Horovod: fast and easy distributed deep learning in TensorFlow", 2018,
// arXiv:1802.05799. A step sends and receives about 2 (P - 1) / P times the bytes of the gradients, for P ranks. With
// fp16 or bf16 it is half of that for float32 gradients. With Op::adasum it is log2(P) times the bytes of the
// gradients. docs/training/horovod.md compares this interface with Horovod's and with Ddp.
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
  // Averages what the gradients of the ranks have in common, and adds what they do not have in common: Maleki et al.,
  // "Scaling Distributed Training with Adaptive Summation", 2020, arXiv:2006.02924. It works on the gradients, tensor
  // by tensor, and computes in double precision. The world size must be a power of two.
  adasum,
};

struct ReduceOptions {
  Op op = Op::average;
  GradientCompression compression = GradientCompression::none;
  // Op::average divides by this factor before the sum, and by world size / factor after it. None: the factor is 1. With
  // a compression it is then the world size, so that the sum fits into the narrow type.
  std::optional<double> predivide_factor{};
};

// A tensor that is being reduced. You may call wait() any number of times, or never.
class Handle {
 public:
  // Wait until the tensor has its result, on a GPU for work on the caller's stream. Context::allreduce() says what it
  // throws.
  void wait() const;
  // True if the reduction has ended, well or not. Does not block.
  bool done() const;

  struct Arrival;  // opaque

 private:
  using Future = std::shared_future<std::shared_ptr<const Arrival>>;
  explicit Handle(Future future) : future_(std::move(future)) {}
  friend class Engine;
  Future future_;
};

class Engine;  // opaque

// A background thread that reduces tensors, with a process group of its own. So it does not disturb the collectives of
// the session. One context is enough for many optimizers. A context is over all ranks, or over a group such as a
// dimension of a mesh (a process set in Horovod). With a group, "rank 0", "world size" and "all ranks" in this header
// are those of the group, and only its members make the calls. Errors name the group, and use the session's numbers of
// ranks.
class Context {
 public:
  // Collective. Every rank makes its contexts in the same order. The HOROVOD_* variables, or the settings, of rank 0
  // hold on all ranks. Throws ConfigError if a variable makes no sense, std::runtime_error if the timeline cannot be
  // written, and c10::Error on a rank that is not in the group. Other errors are those of init(). Given the session,
  // throws ConfigError if the launcher asks for another strategy than ddp (strategy.h), or for keys of one: Parallel
  // (parallel.h) can carry them out.
  explicit Context(Session& session) : Context(session.world_for_ddp("dtrain::hvd")) {}
  Context(Session& session, const Settings& settings) : Context(session.world_for_ddp("dtrain::hvd"), settings) {}
  explicit Context(const Group& group);
  Context(const Group& group, const Settings& settings);
  // Ends the context on all ranks: pending tensors fail, and tensors that are submitted later fail. Takes about a tenth
  // of a second, or ten seconds if another rank does not answer. In a process that is forked from this one it does
  // nothing.
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // This rank's number in the group, and the size of the group.
  int rank() const;
  int world_size() const;

  // Submits a tensor, and returns at once. The tensor is reduced in place: leave it alone until the handle is done.
  // Takes dense floating tensors, and integers with Op::sum. All ranks use the same type, shape and options. Each rank
  // submits the same names, in any order and from any thread. A name may be used again once its tensor is done. Throws
  // c10::Error for a tensor that is not allowed, or a name that is still in use. Handle::wait() throws CollectiveError
  // on every rank if a rank
  //   submitted another type, shape or options (mismatched),
  //   did not submit the tensor within Settings::stall_failure (timed_out),
  //   ended its context (peer_left), or died (peer_died).
  // The context cannot be used after a CollectiveError.
  Handle allreduce(const at::Tensor& tensor, const std::string& name, const ReduceOptions& options = {});
  // Submits several tensors. They are reduced when all ranks have submitted all of them. `name` and the number of
  // tensors are the same on all ranks.
  std::vector<Handle> grouped_allreduce(const std::vector<at::Tensor>& tensors, const std::string& name,
                                        const ReduceOptions& options = {});

  // Collective, for ranks with different numbers of steps. This rank has no more tensors. It takes part in the
  // reductions of the others with zeros, until all ranks have joined. Averages still divide by the world size.
  // Op::adasum cannot be used meanwhile. Wait for the handles of this rank first. Returns the rank that joined last, as
  // rank() counts.
  int join();

 private:
  friend class DistributedOptimizer;
  std::unique_ptr<Engine> engine_;
};

struct OptimizerOptions {
  ReduceOptions reduce{};
  // Gradients are accumulated over so many backwards before they are reduced. The result is their sum.
  int backward_passes_per_step = 1;
  // Each list has names of parameters that are reduced together, when all of them are ready. Other parameters are
  // reduced one by one.
  std::vector<std::vector<std::string>> groups{};
};

using NamedTensors = torch::OrderedDict<std::string, at::Tensor>;

// One thread at a time may use it. Every rank makes the same calls. Backwards, and the gradients within them, may come
// in different orders. If a reduction fails, backward(), step() or synchronize() throws. Optimizers whose step() needs
// a closure, such as LBFGS, cannot be used.
class DistributedOptimizer {
 public:
  // No collective. `optimizer` and `context` must outlive this object. `named_parameters` has all parameters of the
  // optimizer that require a gradient, with the same names on all ranks. Throws c10::Error if one is missing.
  DistributedOptimizer(Context& context, torch::optim::Optimizer& optimizer, const NamedTensors& named_parameters,
                       const OptimizerOptions& options = {});
  ~DistributedOptimizer();
  DistributedOptimizer(const DistributedOptimizer&) = delete;
  DistributedOptimizer& operator=(const DistributedOptimizer&) = delete;

  // Collective. Calls synchronize(), then the optimizer's step(). Throws c10::Error after a synchronize() of your own,
  // unless a SkipSynchronize is alive.
  void step();
  // Collective. Submits the gradients that no backward has submitted, with zeros for parameters without a gradient.
  // Then waits for all gradients. To look at gradients, or to clip them, before the step:
  //   optimizer.synchronize();
  //   torch::nn::utils::clip_grad_norm_(net->parameters(), 1.0);
  //   auto skip = optimizer.skip_synchronize();
  //   optimizer.step();
  void synchronize();
  // The optimizer's zero_grad(). Throws c10::Error while gradients are being reduced.
  void zero_grad(bool set_to_none = true);

  // While it lives, step() does not call synchronize().
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

// The next functions are collectives of the group, or of the session. All ranks get the values of `root`, which is a
// rank of the group. They throw CollectiveError. They throw std::runtime_error on every rank if a rank has other names,
// types or shapes; the error has the session's numbers of ranks. They send what Group::broadcast sends: first the
// root's names, types and shapes as text, then the tensors. Tensors of one type are packed into messages of up to 250
// MiB.
void broadcast_parameters(const Group& group, const NamedTensors& tensors, int root = 0);
// Sends the parameters and the buffers of the module.
void broadcast_parameters(const Group& group, const torch::nn::Module& module, int root = 0);
// Sends the state and the options of the optimizer: momentum buffers, step counts, learning rates. All ranks have
// optimizers of one kind over the same parameters. The other ranks need not have made a step. Their state is replaced.
// It sends what torch's serialization writes, from CPU memory, by one Group::broadcast.
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
