// Context and what broadcasts; see include/dtrain/horovod.h.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>

#include "dtrain/horovod.h"
#include "strategies/collectives/collectives.h"
#include "strategies/collectives/texts.h"
#include "strategies/comm/backend/tensors.h"
#include "strategies/comm/base/call_origin.h"
#include "strategies/horovod/engine.h"
#include "strategies/torch/compat.h"

namespace dtrain::hvd {
namespace {

int in_session(const Group& group, int rank) { return group.ranks().at(static_cast<std::size_t>(rank)); }

// Collective: throws on every rank if some rank has something to say against going on.
void require_no_complaint(const Group& group, const std::string& complaint) {
  const std::vector<std::string> texts = all_gather_texts(group.process_group(), complaint);
  for (std::size_t r = 0; r < texts.size(); ++r) {
    if (!texts[r].empty()) throw std::runtime_error(fmt::format("dtrain: rank {}: {}", group.ranks()[r], texts[r]));
  }
}

std::string broadcast_text(const Group& group, const std::string& text, int root) {
  at::Tensor size = at::full({1}, static_cast<std::int64_t>(text.size()), at::kLong);
  group.broadcast(size, root);
  at::Tensor bytes = at::empty({size.item<std::int64_t>()}, at::kByte);
  if (group.rank() == root) std::memcpy(bytes.mutable_data_ptr(), text.data(), text.size());
  group.broadcast(bytes, root);
  return {static_cast<const char*>(bytes.const_data_ptr()), static_cast<std::size_t>(bytes.numel())};
}

std::string layout_of(const NamedTensors& tensors) {
  std::string text;
  for (const auto& item : tensors) text += fmt::format("'{}' {}\n", item.key(), type_and_shape(item.value()));
  return text;
}

std::string first_option_difference(const std::string& own, const std::string& of_root, int root) {
  std::istringstream left(own);
  std::istringstream right(of_root);
  std::string here;
  std::string there;
  while (here == there) {
    if (!std::getline(left, here)) here = "no more tensors";
    if (!std::getline(right, there)) there = "no more tensors";
    if (left.eof() && right.eof()) break;
  }
  return here == there ? "" : fmt::format("{} here, but {} on rank {}", here, there, root);
}

at::Device device_of(const torch::optim::Optimizer& optimizer) {
  for (const auto& group : optimizer.param_groups()) {
    if (!group.params().empty()) return group.params().front().device();
  }
  return at::kCPU;
}

}  // namespace

Context::Context(const Group& group) : Context(group, parse_settings(process_env())) {
  const auto line = without_effect(process_env());
  if (line && in_session(group, group.rank()) == 0) fmt::print(stderr, "dtrain: hvd: {}\n", *line);
}
Context::Context(const Group& group, const Settings& settings)
    : engine_(
          std::make_unique<Engine>(GroupsOfSession::form_apart(group, "hvd", settings.collective_timeout), settings)) {}

Context::~Context() {
  if (engine_->in_forked_child()) engine_.release();  // its thread is not here, and cannot be waited for
}

int Context::rank() const { return engine_->rank(); }
int Context::world_size() const { return engine_->ranks(); }
int Context::join() { return engine_->join(); }

Handle Context::allreduce(const at::Tensor& tensor, const std::string& name, const ReduceOptions& options) {
  return engine_->submit({tensor}, {name}, options).front();
}

std::vector<Handle> Context::grouped_allreduce(const std::vector<at::Tensor>& tensors, const std::string& name,
                                               const ReduceOptions& options) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < tensors.size(); ++i) names.push_back(fmt::format("{}.{}", name, i));
  return engine_->submit(tensors, names, options, name, static_cast<std::int64_t>(tensors.size()));
}

void broadcast_parameters(const Group& group, const NamedTensors& tensors, int root) {
  const CallsOf its(CallOrigin::Kind::hvd_parameters);
  const std::string own = layout_of(tensors);
  const std::string of_root = broadcast_text(group, own, root);
  require_no_complaint(group, first_option_difference(own, of_root, in_session(group, root)));
  std::vector<at::Tensor> values;
  for (const auto& item : tensors) values.push_back(item.value().detach());
  if (!values.empty()) broadcast_all(group.process_group(), values, root);
}

void broadcast_parameters(const Group& group, const torch::nn::Module& module, int root) {
  NamedTensors all = module.named_parameters();
  for (const auto& item : module.named_buffers()) all.insert("buffer " + item.key(), item.value());
  broadcast_parameters(group, all, root);
}

void broadcast_optimizer_state(const Group& group, torch::optim::Optimizer& optimizer, int root) {
  const CallsOf its(CallOrigin::Kind::hvd_optimizer_state);
  std::ostringstream saved;
  if (group.rank() == root) {
    torch::serialize::OutputArchive archive;
    optimizer.save(archive);
    archive.save_to(saved);
  }
  std::istringstream received(broadcast_text(group, saved.str(), root));
  std::string complaint;
  if (group.rank() != root) {
    try {
      torch::serialize::InputArchive archive;
      archive.load_from(received, device_of(optimizer));  // not where the root's were
      optimizer.state().clear();
      optimizer.load(archive);
    } catch (const std::exception& error) {
      complaint = fmt::format("the optimizer's state of rank {} does not fit: {}", in_session(group, root),
                              short_reason(error));
    }
  }
  require_no_complaint(group, complaint);
}

}  // namespace dtrain::hvd
