// See include/dtrain/parallel.h.
#include "dtrain/parallel.h"

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

ShardedOptimizer make_optimizer(ParallelCore& core, const ShardedOptimizerOptions& options) {
  if (core.strategy().deterministic && std::holds_alternative<Lamb>(options.algorithm)) {
    throw ConfigError(
        "dtrain: LAMB adds up norms in an order that depends on the ranks, and the strategy is deterministic; choose "
        "another optimizer, or take deterministic out of the strategy");
  }
  return {options, core.runs(), core.sum()};
}

}  // namespace dtrain
