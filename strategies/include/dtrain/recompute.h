#pragma once
// recompute: runs a part of a forward without keeping what backward needs of it. Backward runs this part again. A model
// of many blocks then keeps the inputs of its blocks, and the insides of one block at a time. The price is about one
// more forward.
//
//   torch::Tensor forward(torch::Tensor x) {
//     for (Block& block : blocks) x = dtrain::recompute(block, x);
//     return head(dtrain::recompute([&](const torch::Tensor& y) { return norm(torch::gelu(y)); }, x));
//   }
//
// Both runs see the same random numbers of torch's default generators (the CPU's, and those of the GPUs on which
// arguments lie), the same Autocast, and the same arguments. So dropout drops the same elements, and the gradients are
// those of a forward without recompute, to the bit. The generators go on as if there were one run. What else the
// function changes changes twice: a count of calls, the running means of a batch norm.
//
// Gradients come to the arguments, and to leaves that the function uses, such as the parameters of its modules. Another
// tensor that needs a gradient must be an argument, and must not be captured.
//
// It works within Ddp and Parallel: around a unit (unit.h), and in the forward of a unit. Not around all of a Parallel
// or a Ddp: their forward must know that it needs gradients. Ddp with
// find_unused_parameters does not see the parameters that are used in the function; DdpOptions::static_graph allows
// what it allows.
//
// Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016.
#include <torch/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "dtrain/output_tensors.h"

namespace dtrain {
namespace detail {

// The first run. While it lives, no gradients are recorded.
class FirstRun {
 public:
  // `arguments`: the tensors of a call, null if a type among the arguments is not known. They become undefined.
  explicit FirstRun(const std::optional<std::vector<at::Tensor*>>& arguments);
  ~FirstRun();
  FirstRun(const FirstRun&) = delete;
  FirstRun& operator=(const FirstRun&) = delete;

  // The tensors to run with, in the order of the arguments. They need no gradients.
  const std::vector<at::Tensor>& inputs() const;

  // Returns the tensors of its results when it is given those of the arguments.
  using Again = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs)>;
  // `results`: the tensors that came; none if their type is not known. They become others, with the same values.
  void end(const std::optional<std::vector<at::Tensor*>>& results, Again again);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

template <class Function, class Held>
auto call_with(Function& function, const Held& held, const std::vector<at::Tensor>& tensors) {
  Held arguments = held;
  std::vector<at::Tensor*> found;
  look_into(arguments, found);
  for (std::size_t i = 0; i < found.size(); ++i) *found[i] = tensors[i];
  return std::apply(function, arguments);
}

}  // namespace detail

// Returns function(arguments...). `function` is a module's holder (TORCH_MODULE, DTRAIN_UNIT) or any other callable. It
// is copied, as the arguments are, and may be called again as long as the graph of the results lives: what it refers to
// must live as long. output_tensors.h must know the types of the arguments and of what it returns; throws ConfigError
// if not. Without gradients (torch::NoGradGuard) it is an ordinary call.
//
// The results need gradients even if nothing in the function does. backward() throws c10::Error if the second run
// returns tensors of other shapes or types, if an argument was changed in place in between, and for gradients of
// gradients (create_graph). torch::autograd::grad() cannot go through it: it throws too. retain_graph is allowed. Calls
// may be nested.
template <class Function, class... Args>
auto recompute(Function function, Args... arguments) {
  std::tuple<Args...> held(std::move(arguments)...);
  if (!torch::GradMode::is_enabled()) return std::apply(function, held);
  detail::FirstRun run(output_tensors(held));
  auto results = detail::call_with(function, held, run.inputs());
  run.end(output_tensors(results),
          [function = std::move(function), held = std::move(held)](const auto& inputs) mutable {
            auto same = detail::call_with(function, held, inputs);
            const std::vector<at::Tensor*> found = output_tensors(same).value_or(std::vector<at::Tensor*>{});
            std::vector<at::Tensor> tensors;
            for (const at::Tensor* each : found) tensors.push_back(*each);
            return tensors;
          });
  return results;
}

}  // namespace dtrain
