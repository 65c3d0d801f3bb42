// See include/dtrain/recompute.h. The first run records nothing; one node stands for it in autograd's graph. When
// backward comes to the node, the function runs again on the same inputs, now as leaves, and a backward of its own goes
// through what this run recorded.
#include "dtrain/recompute.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable.h>

#include "dtrain/errors.h"
#include "strategies/recompute/run_state.h"
#include "strategies/torch/backward_end.h"

namespace dtrain {
namespace {

using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

struct Call {
  std::vector<SavedVariable> arguments;
  RandomState random;
  AutocastState autocast;
  detail::FirstRun::Again again{};
};

// What is known of a result, to compare it with that of the second run.
struct Looks {
  explicit Looks(const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    type = tensor.scalar_type();
    shape = tensor.sizes().vec();
  }
  std::string text() const {
    return type ? fmt::format("{} [{}]", c10::toString(*type), fmt::join(shape, ", ")) : "undefined";
  }
  bool operator==(const Looks&) const = default;

  std::optional<at::ScalarType> type{};
  std::vector<std::int64_t> shape;
};

class RecomputedCall final : public torch::autograd::Node {
 public:
  RecomputedCall(Call call, std::vector<Looks> looks, std::vector<std::size_t> differentiable)
      : call_(std::move(call)), looks_(std::move(looks)), differentiable_(std::move(differentiable)) {}

  variable_list apply(variable_list&& gradients) override {
    TORCH_CHECK(call_, torch::autograd::ERR_BACKWARD_TWICE);
    TORCH_CHECK(!torch::GradMode::is_enabled(),
                "dtrain: recompute: gradients of gradients (create_graph) are not supported; call the function without "
                "recompute");
    TORCH_CHECK(torch::autograd::Engine::get_default_engine().is_checkpoint_valid(),
                "dtrain: recompute: torch::autograd::grad, and backward with inputs, are not supported, because the "
                "parameters' gradients come where the function runs again; call backward without inputs");
    const variable_list inputs = leaves();
    variable_list results, their_gradients;
    {
      const AsInFirstRun guard(call_->random, call_->autocast);
      const variable_list all = call_->again(inputs);
      require_same(all);
      for (std::size_t i = 0; i < differentiable_.size(); ++i) {
        const at::Tensor& result = all[differentiable_[i]];
        if (!gradients[i].defined() || !result.requires_grad()) continue;
        results.push_back(result);
        their_gradients.push_back(gradients[i]);
      }
    }
    gradients.clear();
    if (!results.empty()) {
      const InnerBackward inner;
      torch::autograd::backward(results, their_gradients);
    }
    variable_list found;
    for (const at::Tensor& input : inputs) found.push_back(input.defined() ? input.grad() : at::Tensor());
    return found;
  }

  void release_variables() override { call_.reset(); }

 private:
  variable_list leaves() const {
    variable_list inputs;
    for (const SavedVariable& saved : call_->arguments) {
      const at::Tensor argument = saved.unpack();
      at::Tensor input = argument.defined() ? argument.detach() : argument;
      if (input.defined()) input.set_requires_grad(argument.requires_grad());
      inputs.push_back(std::move(input));
    }
    return inputs;
  }

  void require_same(const variable_list& results) const {
    const char* const advice =
        "it must depend on its arguments, on parameters and on torch's default generators alone, and not on what "
        "changes in between";
    TORCH_CHECK(results.size() == looks_.size(), "dtrain: recompute: the function returned ", looks_.size(),
                " tensors in forward and ", results.size(), " when backward ran it again; ", advice);
    for (std::size_t i = 0; i < results.size(); ++i) {
      const Looks now(results[i]);
      TORCH_CHECK(now == looks_[i], "dtrain: recompute: tensor ", i, " that the function returned was ",
                  looks_[i].text(), " in forward and is ", now.text(), " when backward ran it again; ", advice);
    }
  }

  std::optional<Call> call_;
  std::vector<Looks> looks_;                 // of all results
  std::vector<std::size_t> differentiable_;  // the results that have gradients
};

std::vector<at::Tensor*> known(const std::optional<std::vector<at::Tensor*>>& tensors, const char* what) {
  if (tensors) return *tensors;
  throw ConfigError(fmt::format("dtrain: recompute: the type of {} is not known, so its tensors cannot be found; {}",
                                what, "write collect_tensors for it (dtrain/output_tensors.h)"));
}

}  // namespace

namespace detail {

struct FirstRun::State {
  Call call;
  torch::autograd::edge_list edges;
  std::vector<at::Tensor> inputs;
  bool keeps_casts = true;
  torch::NoGradGuard without_gradients{};
  InFirstRun first{};
};

FirstRun::FirstRun(const std::optional<std::vector<at::Tensor*>>& arguments) {
  variable_list given;
  for (at::Tensor* each : known(arguments, "an argument")) given.push_back(std::exchange(*each, at::Tensor()));
  Call call{{}, RandomState::now(given), AutocastState::now()};
  torch::autograd::edge_list edges;
  std::vector<at::Tensor> inputs;
  for (const at::Tensor& each : given) {
    call.arguments.emplace_back(each, /*is_output=*/false);
    edges.push_back(each.defined() ? torch::autograd::impl::gradient_edge(each) : torch::autograd::Edge());
    inputs.push_back(each.defined() ? each.detach() : each);
  }
  const bool keeps_casts = call.autocast.keeps_casts;
  state_.reset(new State{std::move(call), std::move(edges), std::move(inputs), keeps_casts});
  // A weight that autocast casts without recording it must not be taken by those who need its gradient.
  at::autocast::set_autocast_cache_enabled(false);
}

FirstRun::~FirstRun() { at::autocast::set_autocast_cache_enabled(state_->keeps_casts); }

const std::vector<at::Tensor>& FirstRun::inputs() const { return state_->inputs; }

void FirstRun::end(const std::optional<std::vector<at::Tensor*>>& results, Again again) {
  const std::vector<at::Tensor*> found = known(results, "what the function returned");
  std::vector<Looks> looks;
  std::vector<std::size_t> differentiable;
  for (std::size_t i = 0; i < found.size(); ++i) {
    looks.emplace_back(*found[i]);
    if (found[i]->defined() && torch::autograd::isDifferentiableType(found[i]->scalar_type()))
      differentiable.push_back(i);
  }
  if (differentiable.empty()) return;
  state_->call.again = std::move(again);
  const auto node = make_node<RecomputedCall>(std::move(state_->call), std::move(looks), differentiable);
  node->set_next_edges(std::move(state_->edges));
  for (const std::size_t i : differentiable) {
    at::Tensor same = found[i]->detach();
    torch::autograd::impl::set_gradient_edge(same, {node, node->add_input_metadata(same)});
    *found[i] = std::move(same);
  }
}

}  // namespace detail
}  // namespace dtrain
