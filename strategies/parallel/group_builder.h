#pragma once
// Makes the groups of a sharded model, while the program builds it.
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "dtrain/parallel.h"
#include "strategies/shard/shard_group.h"
#include "strategies/shard/unshard_core.h"

namespace dtrain {

std::optional<at::ScalarType> type_of(Precision precision);

// Collective. Throws ConfigError if the strategy does not fit the ranks.
ShardSettings shard_settings(Session& session, const Strategy& strategy, const ParallelOptions& options);

class GroupBuilder {
 public:
  GroupBuilder(const Strategy& strategy, const ShardSettings& settings, const ParallelOptions& options);

  using Groups = std::vector<std::size_t>;
  // Collective: groups of what the module has and no group has yet, one for each type of parameters; nothing:
  // by its class or size it is no unit. A unit may have no group, if all of its parameters are small. `type`: its
  // class, with namespaces. Throws ConfigError, and DivergedError if the ranks have different parameters.
  std::optional<Groups> add_unit(const torch::nn::Module& module, const std::string& type);
  // Throws ConfigError if the strategy names units that were not made.
  void require_units() const;
  Groups add_rest(const torch::nn::Module& module);
  // zero1, zero2: all of the module's parameters, in buckets.
  void add_buckets(const torch::nn::Module& module);

  const std::vector<std::unique_ptr<ShardGroup>>& groups() const { return groups_; }
  // After the groups have settled.
  std::vector<UnshardCore::Facts> facts() const;

 private:
  std::vector<NamedTensor> unclaimed(const torch::nn::Module& module) const;
  using Between = UnshardCore::Between;
  Groups add_by_type(const std::string& name, const std::vector<NamedTensor>& parameters, Between between);
  std::size_t add_group(const std::string& name, const std::vector<NamedTensor>& parameters, Between between);

  Strategy strategy_;
  ShardSettings settings_;
  std::function<Placement(const std::string&, const torch::Tensor&)> placement_;
  std::vector<std::int64_t> loads_;  // bytes of each rank
  std::vector<std::unique_ptr<ShardGroup>> groups_;
  std::vector<Between> between_;
  std::set<std::string> made_;                          // names of unit classes
  std::unordered_set<const c10::TensorImpl*> claimed_;  // parameters that have a group
};

}  // namespace dtrain
