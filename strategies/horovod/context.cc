// Context and what broadcasts; see include/dtrain/horovod.h.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>

#include "dtrain/horovod.h"
#include "strategies/horovod/engine.h"
#include "strategies/torch/collectives.h"
#include "strategies/torch/compat.h"
#include "strategies/torch/texts.h"

namespace dtrain::hvd {
namespace {

FormedGroup own_group(Session& session, const Settings& settings) {
  // Counted in the store, and not here: a process may have had other sessions.
  const auto count = session.store()->add(fmt::format("hvd/made_by_{}", session.rank()), 1);
  const std::string name = fmt::format("hvd_{}", count);
  const auto keys = c10::make_intrusive<c10d::PrefixStore>(name, session.store());
  const WorkerEnv& env = session.env();
  return form_group(keys, {env.rank, env.world_size, env.local_rank, {}, settings.collective_timeout},
                    "dtrain_" + name);
}

// Collective: throws on every rank if some rank has something to say against going on.
void require_no_complaint(Session& session, const std::string& complaint) {
  const std::vector<std::string> texts = all_gather_texts(session.group(), complaint);
  for (std::size_t r = 0; r < texts.size(); ++r) {
    if (!texts[r].empty()) throw std::runtime_error(fmt::format("dtrain: rank {}: {}", r, texts[r]));
  }
}

std::string broadcast_text(Session& session, const std::string& text, int root) {
  at::Tensor size = at::full({1}, static_cast<std::int64_t>(text.size()), at::kLong);
  session.broadcast(size, root);
  at::Tensor bytes = at::empty({size.item<std::int64_t>()}, at::kByte);
  if (session.rank() == root) std::memcpy(bytes.mutable_data_ptr(), text.data(), text.size());
  session.broadcast(bytes, root);
  return {static_cast<const char*>(bytes.const_data_ptr()), static_cast<std::size_t>(bytes.numel())};
}

std::string layout_of(const NamedTensors& tensors) {
  std::string text;
  for (const auto& item : tensors)
    text += fmt::format("'{}' {} [{}]\n", item.key(), c10::toString(item.value().scalar_type()),
                        fmt::join(item.value().sizes().vec(), ", "));
  return text;
}

std::string first_difference(const std::string& own, const std::string& of_root, int root) {
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

Context::Context(Session& session) : Context(session, parse_settings(process_env())) {}
Context::Context(Session& session, const Settings& settings)
    : engine_(std::make_unique<Engine>(own_group(session, settings), session.device(), settings)) {}

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

void broadcast_parameters(Session& session, const NamedTensors& tensors, int root) {
  const std::string own = layout_of(tensors);
  require_no_complaint(session, first_difference(own, broadcast_text(session, own, root), root));
  std::vector<at::Tensor> values;
  for (const auto& item : tensors) values.push_back(item.value().detach());
  if (!values.empty()) broadcast_all(session.group(), values, root);
}

void broadcast_parameters(Session& session, const torch::nn::Module& module, int root) {
  NamedTensors all = module.named_parameters();
  for (const auto& item : module.named_buffers()) all.insert("buffer " + item.key(), item.value());
  broadcast_parameters(session, all, root);
}

void broadcast_optimizer_state(Session& session, torch::optim::Optimizer& optimizer, int root) {
  std::ostringstream saved;
  if (session.rank() == root) {
    torch::serialize::OutputArchive archive;
    optimizer.save(archive);
    archive.save_to(saved);
  }
  std::istringstream received(broadcast_text(session, saved.str(), root));
  std::string complaint;
  if (session.rank() != root) {
    try {
      torch::serialize::InputArchive archive;
      archive.load_from(received, device_of(optimizer));  // not where rank 0's were
      optimizer.state().clear();
      optimizer.load(archive);
    } catch (const std::exception& error) {
      complaint = fmt::format("the optimizer's state of rank {} does not fit: {}", root, short_reason(error));
    }
  }
  require_no_complaint(session, complaint);
}

}  // namespace dtrain::hvd
