// See include/dtrain/parallel.h.
#include "dtrain/parallel.h"

#include <fmt/format.h>

#include "strategies/parallel/parallel_ddp.h"
#include "strategies/parallel/parallel_sharded.h"

namespace dtrain {
namespace {

thread_local UnitBuilder* current_builder = nullptr;

}  // namespace

UnitBuilder* UnitBuilder::set_current(UnitBuilder* builder) { return std::exchange(current_builder, builder); }
UnitBuilder* UnitBuilder::current() { return current_builder; }

std::shared_ptr<ParallelCore> ParallelCore::make(Session& session, const ParallelOptions& options) {
  session.require_config_known();
  const Strategy strategy = options.strategy.value_or(session.env().strategy);
  if (strategy.kind == StrategyKind::ddp) return make_parallel_ddp(session, strategy, options);
  return make_parallel_sharded(session, strategy, options);
}

ShardedOptimizer ParallelCore::optimizer(ShardedOptimizerOptions options) {
  if (strategy().deterministic && std::holds_alternative<Lamb>(options.algorithm)) {
    throw ConfigError(
        "dtrain: LAMB adds up norms in an order that depends on the ranks, and the strategy is deterministic; choose "
        "another optimizer, or take deterministic out of the strategy");
  }
  const std::string& folder = strategy().state_folder;
  if (!folder.empty() && !options.state_folder.empty() && options.state_folder != folder)
    throw ConfigError(
        fmt::format("dtrain: the strategy's state_folder is '{}', and the program's is '{}'; remove one of them",
                    folder, options.state_folder));
  if (!folder.empty()) options.state_folder = folder;
  made_optimizer_ = true;
  return {options, runs(), sum()};
}

void ParallelCore::require_state_in_place(bool is_of_torch) {
  if (strategy().state_folder.empty() || (made_optimizer_ && !is_of_torch)) return;
  throw ConfigError(fmt::format(
      "dtrain: the strategy's state_folder is '{}', and the program steps an optimizer that keeps its state "
      "in memory; let Parallel::optimizer() make the optimizer, or remove the key",
      strategy().state_folder));
}

}  // namespace dtrain
