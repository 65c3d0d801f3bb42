// DistributedOptimizer; see include/dtrain/horovod.h. Hooks on the gradients' accumulators submit each gradient when
// the last backward of a step has added to it.
#include <fmt/format.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <unordered_map>

#include "dtrain/horovod.h"
#include "strategies/horovod/engine.h"

namespace dtrain::hvd {
namespace {

using Accumulator = decltype(torch::autograd::impl::grad_accumulator(std::declval<const at::Tensor&>()));

struct Parameter {
  at::Tensor tensor;
  std::string name;   // in the module
  std::string label;  // of its reductions
  std::string group{};
  std::int64_t members = 0;
  int passes_left = 0;
  std::optional<Handle> handle{};
  Accumulator accumulator{};
  std::uintptr_t hook = 0;
};

bool has(const std::vector<Parameter>& parameters, const at::Tensor& tensor) {
  return std::any_of(parameters.begin(), parameters.end(),
                     [&](const Parameter& p) { return p.tensor.is_same(tensor); });
}

std::vector<Parameter> parameters_of_optimizer(torch::optim::Optimizer& optimizer, const NamedTensors& named) {
  std::unordered_map<const c10::TensorImpl*, bool> optimized;  // whether it has a name
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& tensor : group.params()) optimized[tensor.unsafeGetTensorImpl()] = !tensor.requires_grad();
  }
  std::vector<Parameter> found;
  for (const auto& item : named) {
    const auto known = optimized.find(item.value().unsafeGetTensorImpl());
    if (known == optimized.end() || !item.value().requires_grad() || has(found, item.value())) continue;
    known->second = true;
    found.push_back({item.value(), item.key(), item.key()});
  }
  for (const auto& [tensor, has_name] : optimized)
    TORCH_CHECK(has_name, "dtrain: the optimizer has a parameter that is not in named_parameters");
  return found;
}

void set_groups(std::vector<Parameter>& parameters, const std::vector<std::vector<std::string>>& groups) {
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (const std::string& name : groups[g]) {
      const auto found =
          std::find_if(parameters.begin(), parameters.end(), [&](const Parameter& p) { return p.name == name; });
      TORCH_CHECK(found != parameters.end(), "dtrain: '", name, "' in a group is not a parameter of the optimizer");
      TORCH_CHECK(found->group.empty(), "dtrain: '", name, "' is in two groups");
      found->group = fmt::format("group {}", g);
      found->members = static_cast<std::int64_t>(groups[g].size());
    }
  }
}

}  // namespace

struct DistributedOptimizer::State {
  Engine& engine;
  torch::optim::Optimizer& optimizer;
  const OptimizerOptions options;
  std::vector<Parameter> parameters;
  bool skips = false;
  bool synchronized = false;

  State(Engine& the_engine, torch::optim::Optimizer& the_optimizer, const NamedTensors& named,
        const OptimizerOptions& given)
      : engine(the_engine),
        optimizer(the_optimizer),
        options(given),
        parameters(parameters_of_optimizer(the_optimizer, named)) {
    TORCH_CHECK(options.backward_passes_per_step >= 1, "dtrain: backward_passes_per_step must be at least 1");
    set_groups(parameters, options.groups);
    const int user = engine.next_user();
    for (Parameter& parameter : parameters) {
      parameter.passes_left = options.backward_passes_per_step;
      if (user == 0) continue;  // several optimizers may have the same names
      parameter.label = fmt::format("optimizer {}: {}", user, parameter.name);
      if (!parameter.group.empty()) parameter.group = fmt::format("optimizer {}: {}", user, parameter.group);
    }
    for (Parameter& parameter : parameters) set_hook(parameter);
  }

  ~State() {
    for (const Parameter& parameter : parameters) parameter.accumulator->del_post_hook(parameter.hook);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void set_hook(Parameter& parameter) {
    parameter.accumulator = torch::autograd::impl::grad_accumulator(parameter.tensor);
    parameter.hook = parameter.accumulator->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
        [this, &parameter](const torch::autograd::variable_list& outputs, const torch::autograd::variable_list&) {
          gradient_came(parameter);
          return outputs;
        }));
  }

  void gradient_came(Parameter& parameter) {
    TORCH_CHECK(!parameter.handle, "dtrain: the gradient of '", parameter.name, "' came more than ",
                options.backward_passes_per_step,
                " times before step(); set backward_passes_per_step to accumulate gradients of several backwards");
    synchronized = false;
    if (--parameter.passes_left == 0) submit(parameter);
  }

  void submit(Parameter& parameter) {
    at::Tensor& gradient = parameter.tensor.mutable_grad();
    if (!gradient.defined()) gradient = at::zeros_like(parameter.tensor);
    parameter.handle =
        engine.submit({gradient}, {parameter.label}, options.reduce, parameter.group, parameter.members).front();
  }

  const Parameter* on_its_way() const {
    const auto found =
        std::find_if(parameters.begin(), parameters.end(), [](const Parameter& p) { return p.handle.has_value(); });
    return found == parameters.end() ? nullptr : &*found;
  }

  void synchronize() {
    for (Parameter& parameter : parameters) {
      if (!parameter.handle) submit(parameter);
    }
    std::exception_ptr error;
    for (Parameter& parameter : parameters) {
      try {
        parameter.handle->wait();
      } catch (...) {
        if (!error) error = std::current_exception();
      }
      parameter.handle.reset();
      parameter.passes_left = options.backward_passes_per_step;
    }
    if (error) std::rethrow_exception(error);
    synchronized = true;
  }
};

DistributedOptimizer::DistributedOptimizer(Context& context, torch::optim::Optimizer& optimizer,
                                           const NamedTensors& named_parameters, const OptimizerOptions& options)
    : state_(std::make_unique<State>(*context.engine_, optimizer, named_parameters, options)) {}
DistributedOptimizer::~DistributedOptimizer() = default;

void DistributedOptimizer::step() {
  if (state_->skips) {
    const Parameter* parameter = state_->on_its_way();
    TORCH_CHECK(!parameter, "dtrain: step() skips synchronize() while the gradient of '", parameter->name,
                "' is still being reduced");
  } else {
    TORCH_CHECK(!state_->synchronized,
                "dtrain: step() after synchronize() would reduce the gradients once more; call it where a "
                "skip_synchronize() lives");
    state_->synchronize();
  }
  state_->synchronized = false;
  state_->optimizer.step();
}

void DistributedOptimizer::synchronize() { state_->synchronize(); }

void DistributedOptimizer::zero_grad(bool set_to_none) {
  const Parameter* parameter = state_->on_its_way();
  TORCH_CHECK(!parameter, "dtrain: zero_grad() while the gradient of '", parameter->name,
              "' is still being reduced; call it after step()");
  state_->optimizer.zero_grad(set_to_none);
}

DistributedOptimizer::SkipSynchronize DistributedOptimizer::skip_synchronize() {
  return SkipSynchronize(state_->skips);
}

}  // namespace dtrain::hvd
