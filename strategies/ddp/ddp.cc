// Ddp over c10d::Reducer; see include/dtrain/ddp.h. The Reducer hooks every parameter's gradient accumulator, fills the
// buckets as gradients come and reduces each as soon as it is full, divided by the world size.
#include "dtrain/ddp.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <limits>
#include <set>

#include "strategies/collectives/collectives.h"
#include "strategies/ddp/bucket_group.h"
#include "strategies/ddp/bucket_hooks.h"
#include "strategies/ddp/diverged.h"
#include "strategies/torch/graph_edges.h"

namespace dtrain {
namespace {

using Origin = CallOrigin::Kind;

// What the Reducer has to do with.
struct NamedParameters {
  std::vector<at::Tensor> tensors;
  std::unordered_map<std::size_t, std::string> names;
};

NamedParameters trainable(const std::vector<NamedParameter>& all) {
  NamedParameters found;
  for (const NamedParameter& one : all) {
    if (!one.tensor.requires_grad()) continue;
    found.names.emplace(found.tensors.size(), one.name);
    found.tensors.push_back(one.tensor);
  }
  TORCH_CHECK(!found.tensors.empty(), "dtrain: Ddp needs a module with a parameter that requires a gradient");
  return found;
}

// While it lives, views of buckets are made that autograd does not know as views: gradients among them can be detached
// in place, as zero_grad of torch's optimizers and modules does.
using PlainViews = at::AutoDispatchBelowADInplaceOrView;

std::shared_ptr<c10d::Reducer> make_reducer(const c10::intrusive_ptr<BucketGroup>& group,
                                            const NamedParameters& parameters, const DdpOptions& options) {
  // One bucket at first; the Reducer makes the real ones after the first backward, in the order the gradients came.
  // Where that order may change it keeps what it has.
  std::vector<std::size_t> sizes{static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max())};
  if (options.find_unused_parameters && !options.static_graph)
    sizes = {static_cast<std::size_t>(options.first_bucket_bytes), static_cast<std::size_t>(options.bucket_bytes)};
  auto [buckets, limits] = c10d::compute_bucket_assignment_by_size(parameters.tensors, sizes);
  std::reverse(buckets.begin(), buckets.end());
  const PlainViews plain;
  return std::make_shared<c10d::Reducer>(
      parameters.tensors, std::move(buckets), group, std::vector<bool>(parameters.tensors.size(), false),
      options.bucket_bytes, options.find_unused_parameters, options.gradient_as_bucket_view, parameters.names,
      options.first_bucket_bytes,
      /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false, std::vector<std::int64_t>{});
}

// Stands between the graph and all outputs of a forward. A backward that comes from some of them comes through here to
// the others too, with undefined gradients: the Reducer hears of all parameters that it found behind the outputs.
class OutputsTogether final : public torch::autograd::Node {
 public:
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    return std::move(gradients);
  }
};

void join_outputs(const std::vector<at::Tensor*>& outputs) {
  std::vector<at::Tensor*> joined;
  for (at::Tensor* output : outputs) {
    // A leaf's own gradient stays its own.
    if (output->defined() && output->grad_fn() != nullptr) joined.push_back(output);
  }
  if (joined.size() < 2) return;
  lead_through(make_node<OutputsTogether>(), joined);
}

// Whether the backward that runs adds to the gradients of parameters; torch::autograd::grad does not.
bool accumulates() {
  const auto* const asked = torch::autograd::get_current_graph_task_exec_info();
  return asked == nullptr || asked->empty();
}

}  // namespace

struct DdpCore::State {
  Group members;
  c10::intrusive_ptr<c10d::ProcessGroup> group;  // theirs
  c10::intrusive_ptr<BucketGroup> bucket_group;  // the same, for the Reducer
  std::size_t buckets = 0;                       // that this one is to reduce
  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> buffers;
  std::shared_ptr<c10d::Reducer> reducer;
  std::shared_ptr<c10d::Logger> logger;
  std::vector<NamedParameter> named;  // also those that need no gradient
  DdpOptions options;
  bool sync = true;
  bool forward_will_sync = false;
  // static_graph, and no backward has begun. The graph's hooks share it: they may outlive the Ddp.
  std::shared_ptr<bool> learns_graph = std::make_shared<bool>(false);
  bool joining = false;
  bool average_over_active = false;
  std::int64_t synchronised = 0;  // forwards
  // Whether the last of those had a backward. The parameters' hooks share it.
  std::shared_ptr<bool> has_backward = std::make_shared<bool>(true);
  // The names of those whose gradient came since then, if one is to come of each. The hooks share it.
  std::shared_ptr<std::optional<std::set<std::string>>> came = std::make_shared<std::optional<std::set<std::string>>>();
  std::vector<std::pair<at::Tensor, unsigned>> hooks;
};

DdpCore::DdpCore(const Group& group, torch::nn::Module& module, const DdpOptions& options)
    : state_(std::make_unique<State>()) {
  check_reduction(options);
  state_->named = parameters_of(module);
  const NamedParameters parameters = trainable(state_->named);
  state_->members = group;
  state_->group = group.process_group();
  state_->parameters = module.parameters();
  state_->buffers = module.buffers();
  state_->options = options;
  *state_->learns_graph = options.static_graph;
  const CallsOf its(Origin::ddp_construction);
  require_alike(group, state_->named, buffers_of(module));
  std::vector<at::Tensor> shared = state_->parameters;
  shared.insert(shared.end(), state_->buffers.begin(), state_->buffers.end());
  broadcast_all(state_->group, shared, 0);
  state_->bucket_group = c10::make_intrusive<BucketGroup>(state_->group);
  state_->reducer = make_reducer(state_->bucket_group, parameters, options);
  count_buckets();
  state_->logger = std::make_shared<c10d::Logger>(state_->reducer);
  state_->logger->set_construction_data_and_log(module.name(), {}, -1, options.broadcast_buffers, false, false);
  state_->reducer->set_logger(state_->logger);
  if (options.static_graph) {
    state_->reducer->set_static_graph();
    state_->logger->set_static_graph();
  }
  if (auto hook = bucket_hook(group, parameters.tensors, options)) state_->reducer->register_comm_hook(std::move(hook));
  watch_gradients();
}

DdpCore::~DdpCore() {
  for (auto& [parameter, hook] : state_->hooks) parameter.remove_hook(hook);
}

// Before the Reducer sees them.
void DdpCore::watch_gradients() {
  for (const NamedParameter& one : state_->named) {
    if (!one.tensor.requires_grad()) continue;
    const auto look = [began = state_->has_backward, came = state_->came, name = one.name](const at::Tensor& gradient) {
      *began = true;
      if (*came && accumulates() && !(*came)->insert(name).second)
        throw ConfigError("dtrain: Ddp: the gradient of '" + name +
                          "' came twice after one forward, and only the first one was averaged: backward was called "
                          "twice, or two calls of recompute use the parameter, which DdpOptions::static_graph allows");
      if (!gradient.defined() || gradient.layout() == at::kStrided) return;
      throw ConfigError("dtrain: Ddp averages dense gradients, and that of '" + name +
                        "' is sparse; make the embedding without sparse(true), or let the parameter need no gradient");
    };
    state_->hooks.emplace_back(one.tensor, one.tensor.register_hook(look));
  }
}

bool DdpCore::set_sync(bool sync) { return std::exchange(state_->sync, sync); }

void DdpCore::zero_grad() {
  for (at::Tensor& parameter : state_->parameters) parameter.mutable_grad().reset();
}

void DdpCore::before_forward() {
  state_->forward_will_sync = state_->sync && torch::GradMode::is_enabled();
  if (!torch::GradMode::is_enabled()) return;
  state_->came->reset();
  // The Reducer waits for one, and would take that of this forward. The other ranks wait for it too.
  TORCH_CHECK(state_->forward_will_sync || *state_->has_backward,
              "dtrain: Ddp: the last forward without no_sync had no backward on this rank, so a forward under no_sync "
              "cannot follow; a forward that needs no backward goes under torch::NoGradGuard");
  if (state_->forward_will_sync) {
    const std::int64_t every = state_->options.verify_every;
    if (every > 0 && !state_->joining && state_->synchronised++ % every == 0) verify_sync();
    state_->logger->set_runtime_stats_and_log();
    state_->reducer->prepare_for_forward();
    if (state_->joining) {
      const CallsOf its(Origin::ddp_join);
      std::vector<at::Tensor> active{at::ones({1}, at::kInt)};
      state_->reducer->set_forward_pass_work_handle(state_->group->allreduce(active), !state_->average_over_active);
    }
  }
  // Those who have joined take part in what forwards that synchronise do, and in nothing else.
  if (state_->forward_will_sync || !state_->joining) rebuild_buckets();
  if (state_->forward_will_sync) sync_buffers(true);
}

void DdpCore::rebuild_buckets() {
  const PlainViews plain;
  const CallsOf its(Origin::ddp_bucket_order);
  if (state_->reducer->rebuild_buckets()) count_buckets();
}

// Those of a hook do not come to the Reducer's group.
void DdpCore::count_buckets() {
  const DdpOptions& options = state_->options;
  const bool hooked = options.hook || options.power_sgd || options.compression != GradientCompression::none;
  state_->buckets = hooked ? 0 : state_->reducer->get_grad_buckets(/*return_zero_tensors=*/false).size();
}

// `active`: this rank still trains. While ranks join, rank 0 may have stopped.
void DdpCore::sync_buffers(bool active) {
  if (!state_->options.broadcast_buffers || state_->buffers.empty()) return;
  const CallsOf its(Origin::ddp_buffers);
  // Not as a change that the graph of an earlier forward would notice: its backward may yet come.
  std::vector<at::Tensor> values;
  for (const at::Tensor& buffer : state_->buffers) values.push_back(buffer.variable_data());
  broadcast_all(state_->group, values, state_->joining ? any_of_those(active) : 0);
}

// Collective: a rank that says so.
int DdpCore::any_of_those(bool me) {
  const at::Tensor rank = at::full({1}, me ? state_->group->getRank() : -1, at::kInt);
  all_reduce(state_->group, rank, c10d::ReduceOp::MAX);
  return rank.item<int>();
}

void DdpCore::begin_join(bool average_over_active) {
  TORCH_CHECK(!state_->joining, "dtrain: Ddp::join was called within Ddp::join");
  const bool hooked = state_->options.compression != GradientCompression::none || state_->options.power_sgd;
  if (average_over_active && hooked)
    throw ConfigError(
        "dtrain: Ddp::join cannot average over the ranks that still train: compression and power_sgd divide by all "
        "ranks");
  state_->joining = true;
  state_->average_over_active = average_over_active;
}

void DdpCore::end_join() {
  const CallsOf its(Origin::ddp_join);
  bool last = true;
  while (someone_trains()) {
    last = false;
    TORCH_CHECK(!*state_->learns_graph,
                "dtrain: Ddp::join with static_graph: this rank must take a step first, in which it learns the graph");
    shadow_step();
  }
  std::vector<at::Tensor> shared = state_->parameters;
  shared.insert(shared.end(), state_->buffers.begin(), state_->buffers.end());
  broadcast_all(state_->group, shared, any_of_those(last));
  drop_join();
}

void DdpCore::drop_join() { state_->joining = false; }

bool DdpCore::someone_trains() {
  const at::Tensor active = at::zeros({1}, at::kInt);
  all_reduce(state_->group, active);
  return active.item<int>() > 0;
}

// The collectives of a step of the others, with gradients of zero.
void DdpCore::shadow_step() {
  rebuild_buckets();
  sync_buffers(false);
  std::vector<c10::intrusive_ptr<c10::ivalue::Future>> reduced;
  std::vector<c10d::GradBucket> buckets = state_->reducer->get_grad_buckets();
  state_->bucket_group->begin(state_->buckets);
  for (c10d::GradBucket& bucket : buckets) reduced.push_back(state_->reducer->run_comm_hook(bucket));
  for (const auto& each : reduced) each->waitAndThrow();
  if (state_->options.find_unused_parameters && !state_->options.static_graph) {
    std::vector<at::Tensor> used{state_->reducer->get_local_used_map_on_device()};
    state_->bucket_group->allreduce(used, {})->wait();
  }
  state_->reducer->push_rebuilt_params_for_all_indices();
}

void DdpCore::after_forward(const std::optional<std::vector<at::Tensor*>>& outputs) {
  if (!state_->forward_will_sync) return;
  const bool walks = state_->options.find_unused_parameters && !state_->options.static_graph;
  TORCH_CHECK(outputs || (!walks && !*state_->learns_graph),
              "dtrain: Ddp cannot look into what forward returned; write collect_tensors for its type "
              "(dtrain/output_tensors.h)");
  std::vector<at::Tensor> roots;
  if (walks) {
    for (const at::Tensor* output : *outputs) {
      if (output->defined()) roots.push_back(*output);
    }
  }
  state_->bucket_group->begin(state_->buckets);
  state_->reducer->prepare_for_backward(roots);
  *state_->has_backward = false;
  if (!state_->options.static_graph) state_->came->emplace();
  if (walks) join_outputs(*outputs);
  if (*state_->learns_graph) learn_graph(*outputs);
}

// The first backward of a static graph counts how often each gradient comes, and reduces only when all of it is done.
void DdpCore::learn_graph(const std::vector<at::Tensor*>& outputs) {
  for (const at::Tensor* output : outputs) {
    if (!output->requires_grad()) continue;
    output->register_hook([learns = state_->learns_graph, reducer = state_->reducer](const at::Tensor&) {
      if (!std::exchange(*learns, false)) return;
      torch::autograd::Engine::get_default_engine().queue_callback([reducer] { reducer->delay_all_reduce(); });
    });
  }
}

void DdpCore::verify_sync() {
  const CallsOf its(Origin::ddp_verify_sync);
  require_equal(state_->members, state_->named);
}

}  // namespace dtrain
