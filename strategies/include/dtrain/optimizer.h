#pragma once
// ShardedOptimizer: updates a rank's shards of parameters in place. The strategies use it, and so can a program.
//
//   dtrain::ShardedOptimizerOptions options;
//   options.algorithm = dtrain::AdamW{.lr = 3e-4, .weight_decay = 0.1};
//   options.groups = {{.dims_max = 1, .weight_decay = 0.0}};   // no decay for biases and norms
//   dtrain::ShardedOptimizer optimizer(options, runs);
//   optimizer.step(gradients);                                 // one flat gradient for each run
//
// Options have the names and the defaults of torch.optim, and a step does the same update. On a CPU the bits of an
// update do not depend on how a parameter is divided into shards and runs; this holds for all algorithms but LAMB. One
// thread at a time uses a ShardedOptimizer. Its functions throw ConfigError with a text that says what to do.
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "dtrain/ema.h"
#include "dtrain/optimizer_options.h"
#include "dtrain/shards.h"
#include "dtrain/worker_env.h"

namespace dtrain {

// Replaces a small tensor (float32 or float64, on the device of the shards) by its sum over the ranks that hold the
// shards. It is a collective: these ranks call it in the same order. An empty function: this rank holds all shards.
//
//   dtrain::SumOverRanks sum = [&](const at::Tensor& tensor) { session.all_reduce(tensor); };
using SumOverRanks = std::function<void(const at::Tensor& tensor)>;

// Parameters with options of their own. The first group that a parameter fits holds; without a fit the options of the
// algorithm hold. A parameter fits if it meets all conditions that are set.
struct ParameterGroup {
  std::vector<std::string> names{};        // the name contains one of these; none: any name
  std::optional<std::int64_t> dims_max{};  // it has at most so many dimensions; biases and norms have one
  double lr_factor = 1;                    // its rate is lr() times this
  std::optional<double> weight_decay{};    // in place of the algorithm's
};

struct ShardedOptimizerOptions {
  OptimizerOptions algorithm{AdamW{}};
  std::vector<ParameterGroup> groups{};
  // float32 or bfloat16; none: the type of the values. In bfloat16 Adam's state takes 4 bytes for a parameter in place
  // of 8. The state is computed in float32 and rounded to one of its two neighbours at random, so that small changes of
  // an average are not lost. The random numbers depend on the parameter's name, the element and the step alone. If
  // values, gradient and state all are bfloat16, the update is torch's, which rounds to the nearest.
  std::optional<at::ScalarType> state_dtype{};
  // A folder of a disk: the state lies there and not in memory, in a file without a name that is gone with the process.
  // For values on a CPU. Each rank has a file of its own, whose room is reserved at once. A step reads and writes the
  // state part by part, while it computes: it holds 64 MiB of it, or two of Muon's largest matrices if these have more.
  // The results have the same bits. ZeRO-Infinity: Rajbhandari et al., SC 2021, arXiv:2104.07857. Empty: in memory.
  std::string state_folder{};
  // Keep a moving average of the values with this decay (ema.h), updated at the end of each step(). It is a part of the
  // state, as tensor "ema": so checkpoints and kept states have it, and what is loaded must have it too. In memory.
  std::optional<double> average_decay{};
};

// The state of one shard, or what was saved of it.
struct ShardState {
  std::string name;                                           // of the parameter
  std::int64_t begin = 0;                                     // as in Shard
  std::int64_t count = 0;                                     // elements
  std::int64_t step = 0;                                      // updates of this shard so far
  std::vector<std::pair<std::string, at::Tensor>> tensors{};  // 1-D, of `count` elements each
};

class ShardedOptimizer {
 public:
  // No collective. Keeps the tensors of `runs`, and allocates the state. Throws ConfigError if an option is out of its
  // range, the shards of a run do not fill it, Muon gets a matrix that is split over ranks, or state_folder has no room
  // for the state, lies in memory (tmpfs) or is not there.
  ShardedOptimizer(const ShardedOptimizerOptions& options, const std::vector<ShardRun>& runs, SumOverRanks sum = {});
  ~ShardedOptimizer();
  ShardedOptimizer(ShardedOptimizer&&) noexcept;
  ShardedOptimizer& operator=(ShardedOptimizer&&) noexcept;

  // One update. `gradients` has a tensor for each run, contiguous and with as many elements, of any floating type. An
  // undefined tensor leaves its run as it is. `scales` is empty, or has for each run a tensor without dimensions, on
  // its device or on the CPU: the gradient counts times that, and is not changed; an undefined one is 1. A collective
  // with LAMB alone. Gradients of the values' type need no memory; for another type, or another type of the state, or
  // with a scale, the update is made by pieces of 64 Ki elements. Does not wait for a GPU. Throws ConfigError if a
  // gradient or a scale does not fit its run, and std::runtime_error if a disk with the state fails: then go on from a
  // checkpoint.
  void step(const std::vector<at::Tensor>& gradients, const std::vector<at::Tensor>& scales = {});

  // The rate that groups scale. The constructor sets it to the lr of the algorithm.
  double lr() const;
  void set_lr(double lr);  // 0 or more
  // The average of average_decay, to evaluate with: swap it in and out, and do not save in between. Null without it.
  Ema* average();
  // Calls of step(), with those before a checkpoint that load() has read.
  std::int64_t steps() const;

  // The state of each shard, in the order of the runs. The tensors are the state itself, and not copies: what is
  // written to them is loaded. After Parallel::save_async(), write nothing to them before its PendingCopy is complete.
  // They are of state_dtype, on the device of the values. With state_folder they are mapped memory of the file.
  std::vector<ShardState> state() const;
  // Copies what is saved of a parameter into the shards of it that this rank has; elements of other ranks are left
  // out. So ranks may load pieces of any size, as one rank or another saved them. Returns the number of elements that
  // were copied. Throws ConfigError if the tensors have other names or another size than `state()` says.
  std::int64_t load(const ShardState& saved);

 private:
  friend class ParallelCore;
  // The next step() or load() calls it first: a save in the background reads the state until then.
  void before_change(std::function<void()> wait);

  struct State;
  std::unique_ptr<State> state_;
};

// The norm of all gradients together, as one vector; then multiplies them by max_norm / norm if the norm is above
// max_norm. Collective, if `sum` is one. Gradients may be undefined. Returns the norm before that: a float64 tensor
// without dimensions, on the device of the gradients. Does not wait for a GPU. If the norm is not finite, the gradients
// are not finite either afterwards. Ranks that have the same gradients, as with Ddp, give no `sum`. Pascanu, Mikolov
// and Bengio, "On the difficulty of training Recurrent Neural Networks", ICML 2013.
at::Tensor clip_by_global_norm(const std::vector<at::Tensor>& gradients, double max_norm, const SumOverRanks& sum = {});

// Replaces a small tensor by its maximum over the ranks, as SumOverRanks does by the sum.
using MaxOverRanks = std::function<void(const at::Tensor& tensor)>;

// As clip_by_global_norm(), with the largest absolute value of an element as the norm.
at::Tensor clip_by_largest(const std::vector<at::Tensor>& gradients, double max_value, const MaxOverRanks& max = {});

}  // namespace dtrain
