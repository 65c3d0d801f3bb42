#include "strategies/optim/check_options.h"

#include <c10/util/accumulate.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace dtrain {
namespace {

// A range's two ends, and whether the upper one belongs to it.
void demand(bool holds, const char* algorithm, const char* option, double value, const char* range) {
  if (holds) return;
  throw ConfigError(
      fmt::format("dtrain: {}: {}={} is out of range; choose a number that is {}", algorithm, option, value, range));
}

void demand_not_negative(const char* algorithm, const char* option, double value) {
  demand(std::isfinite(value) && value >= 0, algorithm, option, value, "0 or more");
}

void check_betas(const char* algorithm, const std::pair<double, double>& betas, double eps) {
  demand(betas.first >= 0 && betas.first < 1, algorithm, "betas.first", betas.first, "0 or more and below 1");
  demand(betas.second >= 0 && betas.second < 1, algorithm, "betas.second", betas.second, "0 or more and below 1");
  demand_not_negative(algorithm, "eps", eps);
}

template <class Options>
void check_common(const char* algorithm, const Options& options) {
  demand_not_negative(algorithm, "lr", options.lr);
  demand_not_negative(algorithm, "weight_decay", options.weight_decay);
}

template <class Options>
void check_adam_like(const char* algorithm, const Options& options) {
  check_common(algorithm, options);
  check_betas(algorithm, options.betas, options.eps);
}

void check(const Adam& options) { check_adam_like("Adam", options); }
void check(const AdamW& options) { check_adam_like("AdamW", options); }
void check(const Lamb& options) { check_adam_like("Lamb", options); }

void check(const Sgd& options) {
  check_common("Sgd", options);
  demand_not_negative("Sgd", "momentum", options.momentum);
  if (options.nesterov && (options.momentum == 0 || options.dampening != 0))
    throw ConfigError("dtrain: Sgd: nesterov needs a momentum above 0 and no dampening; set both, or leave it out");
}

void check(const Adagrad& options) {
  check_common("Adagrad", options);
  demand_not_negative("Adagrad", "lr_decay", options.lr_decay);
  demand_not_negative("Adagrad", "initial_accumulator_value", options.initial_accumulator_value);
  demand_not_negative("Adagrad", "eps", options.eps);
}

void check(const Muon& options) {
  check_common("Muon", options);
  demand(options.lr > 0, "Muon", "lr", options.lr, "above 0");
  demand_not_negative("Muon", "momentum", options.momentum);
  demand_not_negative("Muon", "eps", options.eps);
  demand(options.ns_steps >= 1 && options.ns_steps < 100, "Muon", "ns_steps", options.ns_steps, "from 1 to 99");
  check_adam_like("Muon's adamw", options.adamw);
}

bool contains_one(const std::string& name, const std::vector<std::string>& parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](const std::string& part) { return name.find(part) != std::string::npos; });
}

bool is_updatable(at::ScalarType type) { return type == at::kFloat || type == at::kDouble || type == at::kBFloat16; }

}  // namespace

void check_options(const ShardedOptimizerOptions& options) {
  std::visit([](const auto& algorithm) { check(algorithm); }, options.algorithm);
  for (const ParameterGroup& group : options.groups) {
    demand_not_negative("ParameterGroup", "lr_factor", group.lr_factor);
    if (group.weight_decay) demand_not_negative("ParameterGroup", "weight_decay", *group.weight_decay);
  }
  if (options.state_dtype && *options.state_dtype != at::kFloat && *options.state_dtype != at::kBFloat16)
    throw ConfigError(
        fmt::format("dtrain: the optimizer's state_dtype is {}; choose float32 or bfloat16, or leave it out",
                    c10::toString(*options.state_dtype)));
}

double lr_of(const OptimizerOptions& algorithm) {
  return std::visit([](const auto& options) { return options.lr; }, algorithm);
}

std::size_t group_of(const Shard& shard, const std::vector<ParameterGroup>& groups) {
  const auto dims = static_cast<std::int64_t>(shard.shape.size());
  const auto fits = [&](const ParameterGroup& group) {
    return (group.names.empty() || contains_one(shard.name, group.names)) &&
           (!group.dims_max || dims <= *group.dims_max);
  };
  return static_cast<std::size_t>(std::find_if(groups.begin(), groups.end(), fits) - groups.begin());
}

bool is_muon_matrix(const Shard& shard, const Muon& muon) {
  return shard.shape.size() == 2 && !contains_one(shard.name, muon.adamw_names);
}

void check_run(const ShardRun& run, std::size_t index) {
  const auto wrong = [&](const std::string& what) {
    return ConfigError(fmt::format("dtrain: shard run {} of the optimizer: {}", index, what));
  };
  if (!run.values.defined() || run.values.dim() != 1 || !run.values.is_contiguous())
    throw wrong("its values are not a contiguous tensor of one dimension; give a flat one");
  if (!is_updatable(run.values.scalar_type()))
    throw wrong(fmt::format("its values are {}; float32, float64 and bfloat16 can be updated",
                            c10::toString(run.values.scalar_type())));
  std::int64_t filled = 0;
  const auto* start = static_cast<const char*>(run.values.const_data_ptr());
  const auto bytes = static_cast<std::int64_t>(run.values.element_size());
  for (const Shard& shard : run.shards) {
    const auto count = shard.values.defined() ? shard.values.numel() : 0;
    if (shard.begin < 0 || shard.begin + count > c10::multiply_integers(shard.shape))
      throw wrong(fmt::format("'{}' has the elements {} to {} of a parameter of shape [{}]; let them lie in it",
                              shard.name, shard.begin, shard.begin + count, fmt::join(shard.shape, ", ")));
    if (count > 0 && (filled + count > run.values.numel() || shard.values.scalar_type() != run.values.scalar_type() ||
                      shard.values.const_data_ptr() != start + filled * bytes))
      throw wrong(
          fmt::format("'{}' does not lie behind the shard before it; give the shards in the order of the run, "
                      "without gaps, as parts of its values",
                      shard.name));
    filled += count;
  }
  if (filled != run.values.numel())
    throw wrong(
        fmt::format("it has {} elements and its shards have {}; let the shards fill it", run.values.numel(), filled));
}

void check_whole(const Shard& shard) {
  const auto count = shard.values.defined() ? shard.values.numel() : 0;
  const auto all = c10::multiply_integers(shard.shape);
  if (count == 0 || count == all) return;
  throw ConfigError(
      fmt::format("dtrain: Muon needs whole matrices, and this rank has {} of the {} elements of '{}'; give it the "
                  "placement \"owned\", or its name to Muon's adamw_names",
                  count, all, shard.name));
}

}  // namespace dtrain
