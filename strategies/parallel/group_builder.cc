#include "strategies/parallel/group_builder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "strategies/collectives/collectives.h"
#include "strategies/config/rank_fit.h"
#include "strategies/ddp/diverged.h"

namespace dtrain {

std::optional<at::ScalarType> type_of(Precision precision) {
  switch (precision) {
    case Precision::float32:
      return at::kFloat;
    case Precision::bfloat16:
      return at::kBFloat16;
    case Precision::float16:
      return at::kHalf;
    case Precision::same:
      break;
  }
  return std::nullopt;
}

namespace {

// As DTRAIN_UNIT has it.
std::string unit_name(const std::string& type) {
  const std::size_t colons = type.rfind("::");
  std::string name = colons == std::string::npos ? type : type.substr(colons + 2);
  if (name.ends_with("Impl")) name.resize(name.size() - 4);
  return name;
}

// Collective. One copy on each host: by itself where all ranks that share the model are on one host; on several, where
// it takes more memory than the parts do, if the program asks for it.
void keep_one_copy(Session& session, ShardSettings& settings, bool asked) {
  const auto refuse = [](const char* why) {
    throw ConfigError(fmt::format("dtrain: strategy: one_copy is true, and {}; leave one_copy out", why));
  };
  const auto all_share_memory = [&](const Group& group) {
    at::Tensor all = at::full({1}, group.size() == 1 || shares_memory(group.process_group()) ? 1 : 0, at::kInt);
    settings.everyone.all_reduce(all, c10d::ReduceOp::MIN);
    return all.item<int>() == 1;
  };
  if (!settings.device.is_cpu()) {
    if (asked) refuse("the model is on GPUs, each of which has memory of its own");
    return;
  }
  settings.host = settings.sharing;
  if (all_share_memory(settings.sharing)) return;
  settings.host = Group();
  if (!asked) return;
  const auto ranks = static_cast<std::size_t>(session.world_size());
  at::Tensor nodes = at::empty({session.world_size()}, at::kInt);  // the first rank of each rank's node
  settings.everyone.all_gather(nodes, at::full({1}, session.rank() - session.local_rank(), at::kInt));
  const int set = settings.sharing.size(), each = config::ranks_of_a_node({nodes.const_data_ptr<int>(), ranks}, set);
  if (each == 0) refuse("the nodes do not have equal numbers of the ranks that share the model");
  settings.host = session.split(session.rank() / each, {"host"});
  settings.across = session.split(session.rank() / set * each + session.rank() % each, {"across hosts"});
  if (!all_share_memory(settings.host)) refuse("the ranks of a node cannot share memory");
}

bool are_alike(const NamedTensor& a, const NamedTensor& b) { return a.tensor.scalar_type() == b.tensor.scalar_type(); }

}  // namespace

ShardSettings shard_settings(Session& session, const Strategy& strategy, const ParallelOptions& options) {
  const int size = strategy.shard_size, ranks = session.world_size();
  if (const auto why = config::why_unfit(strategy, ranks)) throw ConfigError("dtrain: strategy: " + *why);
  ShardSettings settings;
  settings.device = options.device.value_or(session.device());
  settings.everyone = settings.sharing = session.world();
  if (size > 0 && size != ranks) {
    settings.sharing = session.split(session.rank() / size, {"sharing"});
    settings.replicas = session.split(session.rank() % size, {"replicas"});
  }
  const int near = strategy.reshard_size;
  if (near > 0 && near < settings.sharing.size()) settings.near = session.split(session.rank() / near, {"near"});
  settings.compute = type_of(strategy.param);
  settings.reduce = type_of(strategy.reduce);
  settings.whole_stays = strategy.kind != StrategyKind::fsdp;
  // A row of gradients for each level of the tree stays, if sums are.
  settings.gradients_stay = strategy.kind == StrategyKind::zero1 && !strategy.deterministic;
  settings.deterministic = strategy.deterministic;
  // Then all groups are reduced at the end of backward.
  if (strategy.deterministic) settings.rows = std::make_shared<RowPool>(std::numeric_limits<std::size_t>::max());
  settings.parts_on_cpu = strategy.cpu_offload;
  if (strategy.kind == StrategyKind::fsdp && strategy.one_copy.value_or(true) && settings.sharing.size() > 1)
    keep_one_copy(session, settings, strategy.one_copy.has_value());
  return settings;
}

GroupBuilder::GroupBuilder(const Strategy& strategy, const ShardSettings& settings, const ParallelOptions& options)
    : strategy_(strategy),
      settings_(settings),
      placement_(options.placement),
      loads_(static_cast<std::size_t>(settings.sharing.size()), 0) {}

std::vector<NamedTensor> GroupBuilder::unclaimed(const torch::nn::Module& module) const {
  std::vector<NamedTensor> found;
  for (const auto& [name, parameter] : parameters_of(module)) {
    if (claimed_.contains(parameter.unsafeGetTensorImpl())) continue;
    if (torch::autograd::impl::post_acc_grad_hooks(parameter) != nullptr) {
      throw ConfigError(fmt::format(
          "dtrain: parameter '{}' already belongs to another Parallel. Build the modules of a Parallel in the function "
          "that it calls",
          name));
    }
    found.push_back({name, parameter, placement_ ? placement_(name, parameter) : Placement{}});
  }
  return found;
}

std::size_t GroupBuilder::add_group(const std::string& name, const std::vector<NamedTensor>& parameters,
                                    Between between) {
  std::vector<NamedParameter> alike;
  for (const NamedTensor& each : parameters) {
    alike.push_back({each.name, each.tensor});
    claimed_.insert(each.tensor.unsafeGetTensorImpl());
  }
  require_alike(settings_.everyone, alike, {});
  groups_.push_back(std::make_unique<ShardGroup>(settings_, name, parameters, loads_));
  between_.push_back(between);
  return groups_.size() - 1;
}

GroupBuilder::Groups GroupBuilder::add_by_type(const std::string& name, const std::vector<NamedTensor>& parameters,
                                               Between between) {
  std::vector<std::vector<NamedTensor>> types;
  for (const NamedTensor& each : parameters) {
    auto alike = std::find_if(types.begin(), types.end(), [&](const auto& some) { return are_alike(some[0], each); });
    if (alike == types.end()) alike = types.emplace(types.end());
    alike->push_back(each);
  }
  Groups added;
  for (const auto& some : types) added.push_back(add_group(name, some, between));
  return added;
}

std::optional<GroupBuilder::Groups> GroupBuilder::add_unit(const torch::nn::Module& module, const std::string& type) {
  const std::string name = unit_name(type);
  made_.insert(name);
  const auto& units = strategy_.units;
  if (!units.empty() && std::find(units.begin(), units.end(), name) == units.end()) return std::nullopt;
  std::vector<NamedTensor> parameters = unclaimed(module);
  std::int64_t elements = 0;
  for (const NamedTensor& each : parameters) elements += each.tensor.numel();
  if (parameters.empty() || elements < strategy_.unit_elements) return std::nullopt;
  if (strategy_.whole_elements > 0)
    std::erase_if(parameters, [&](const auto& each) { return each.tensor.numel() <= strategy_.whole_elements; });
  const Between sharded = settings_.near ? Between::near : Between::sharded;
  return add_by_type(name, parameters, strategy_.reshard_after_forward ? sharded : Between::whole);
}

void GroupBuilder::require_units() const {
  for (const std::string& each : strategy_.units) {
    if (made_.contains(each)) continue;
    throw ConfigError(fmt::format("dtrain: strategy: units has '{}', and the model made no such unit. Its units: {}",
                                  each, made_.empty() ? "none" : fmt::format("{}", fmt::join(made_, ", "))));
  }
}

// Backward needs them first, so they stay whole after forward.
GroupBuilder::Groups GroupBuilder::add_rest(const torch::nn::Module& module) {
  return add_by_type(module.name(), unclaimed(module), Between::whole);
}

// In the order in which gradients come, as a rule.
void GroupBuilder::add_buckets(const torch::nn::Module& module) {
  const std::vector<NamedTensor> parameters = unclaimed(module);
  std::vector<NamedTensor> bucket;
  std::int64_t bytes = 0;
  const auto close = [&] {
    if (bucket.empty()) return;
    add_group(fmt::format("bucket {}", groups_.size() + 1), bucket, Between::whole);
    bucket.clear();
    bytes = 0;
  };
  for (auto each = parameters.rbegin(); each != parameters.rend(); ++each) {
    if (!bucket.empty() && !are_alike(bucket.front(), *each)) close();
    bucket.push_back(*each);
    bytes += static_cast<std::int64_t>(each->tensor.nbytes());
    if (bytes >= strategy_.bucket_bytes) close();
  }
  close();
}

std::vector<UnshardCore::Facts> GroupBuilder::facts() const {
  std::vector<UnshardCore::Facts> found;
  for (std::size_t i = 0; i < groups_.size(); ++i)
    found.push_back({between_[i], groups_[i]->trains(), groups_[i]->gathered_bytes()});
  return found;
}

}  // namespace dtrain
