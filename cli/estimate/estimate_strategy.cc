// Tested by test/unit/cli/estimate/estimate_test.cc.
#include "cli/estimate/estimate_strategy.h"

#include <fmt/format.h>

#include <bit>
#include <variant>

#include "cli/base/text.h"
#include "cli/base/usage_error.h"
#include "strategies/config/rank_fit.h"
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

Result<void> check_micro_batches(const std::optional<Strategy>& strategy, int micro_batches) {
  if (micro_batches == 0) return {};
  if (!strategy || !strategy->deterministic)
    return usage_error("--micro-batches: only a --strategy with deterministic needs memory for them");
  if (!std::has_single_bit(static_cast<unsigned>(micro_batches)))
    return usage_error("--micro-batches: deterministic needs 1, 2, 4, 8, ...");
  return {};
}

Result<Config> config_for(const EstimateOptions& options, const ReadText& read) {
  auto text = strategy_text(options.strategy, read);
  if (!text) return text.error();
  const JobSize job{.ranks = options.ranks(), .ranks_of_host = options.knows_nodes ? options.nproc : 0};
  if (auto wrong = config::why_refused(*text, job)) return usage_error(*wrong);
  Config config = parse_config(*text, job);
  if (auto unfit = config::why_unfit(config.strategy, options.ranks())) return usage_error(*unfit);
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
    options.loss_scale = config->training.loss_scale.has_value();
  }
  if (auto fine = check_micro_batches(strategy, options.micro_batches); !fine) return fine.error();
  if (!options.optimizer.empty()) return strategy;
  if (auto taken = take_optimizer(std::visit(OptimizerName(), optimizer.value_or(AdamW())), options); !taken)
    return taken.error();
  return strategy;
}

}  // namespace dtrain::cli
