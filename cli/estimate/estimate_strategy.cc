// Tested by test/unit/cli/estimate/estimate_test.cc.
#include "cli/estimate/estimate_strategy.h"

#include <fmt/format.h>

#include <bit>
#include <variant>

#include "cli/base/text.h"
#include "cli/base/usage_error.h"
#include "strategies/config/why_refused.h"

namespace dtrain::cli {
namespace {

// As --optimizer names them.
struct OptimizerName {
  std::string operator()(const Sgd& sgd) const { return sgd.momentum == 0 ? "sgd" : "sgd-momentum"; }
  std::string operator()(const Adam& /*options*/) const { return "adam"; }
  std::string operator()(const AdamW& /*options*/) const { return "adamw"; }
  std::string operator()(const Adagrad& /*options*/) const { return "adagrad"; }
  std::string operator()(const Lamb& /*options*/) const { return "lamb"; }
  std::string operator()(const Muon& /*options*/) const { return "muon"; }
};

bool is_power_of_two(int number) { return std::has_single_bit(static_cast<unsigned>(number)); }

// What Parallel would say of the number of ranks.
Result<void> check_ranks(const Strategy& strategy, int ranks) {
  const auto divides = [](int size, int all) { return size == 0 || all % size == 0; };
  if (!divides(strategy.shard_size, ranks))
    return usage_error(fmt::format("shard_size {} does not divide the {} ranks", strategy.shard_size, ranks));
  const int sharing = strategy.shard_size > 0 ? strategy.shard_size : ranks;
  if (!divides(strategy.reshard_size, sharing))
    return usage_error(fmt::format("reshard_after_forward {} does not divide the {} ranks that share the model",
                                   strategy.reshard_size, sharing));
  if (strategy.deterministic && !is_power_of_two(ranks))
    return usage_error(fmt::format("deterministic needs 1, 2, 4, 8, ... ranks, and there are {}", ranks));
  return {};
}

Result<void> check_micro_batches(const std::optional<Strategy>& strategy, int micro_batches) {
  if (micro_batches == 0) return {};
  if (!strategy || !strategy->deterministic)
    return usage_error("--micro-batches: only a --strategy with deterministic needs memory for them");
  if (!is_power_of_two(micro_batches)) return usage_error("--micro-batches: deterministic needs 1, 2, 4, 8, ...");
  return {};
}

Result<Config> config_for(const EstimateOptions& options, const ReadText& read) {
  auto text = strategy_text(options.strategy, read);
  if (!text) return text.error();
  const JobSize job{.ranks = options.ranks(), .ranks_of_host = options.knows_nodes ? options.nproc : 0};
  if (auto wrong = config::why_refused(*text, job)) return usage_error(*wrong);
  Config config = parse_config(*text, job);
  if (auto fine = check_ranks(config.strategy, options.ranks()); !fine) return fine.error();
  if (!config.strategy.units.empty() && options.units.empty() && options.unit_count == 0)
    return usage_error(
        "its units are names of classes, which files do not have; name the same parts of the model by "
        "--units");
  return config;
}

}  // namespace

Result<std::optional<Strategy>> strategy_for(EstimateOptions& options, const ReadText& read) {
  std::optional<Strategy> strategy;
  std::optional<OptimizerOptions> optimizer;
  if (!options.strategy.empty()) {
    auto config = config_for(options, read);
    if (!config) return config.error().in(fmt::format("--strategy '{}'", printable(options.strategy, 100)));
    strategy = config->strategy;
    optimizer = config->training.optimizer;
  }
  if (auto fine = check_micro_batches(strategy, options.micro_batches); !fine) return fine.error();
  if (!options.optimizer.empty()) return strategy;
  if (auto taken = take_optimizer(std::visit(OptimizerName(), optimizer.value_or(AdamW())), options); !taken)
    return taken.error();
  return strategy;
}

}  // namespace dtrain::cli
