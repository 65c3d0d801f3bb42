#pragma once
// The strategy that --strategy asks for. Pure, but for `read`.
#include <optional>

#include "cli/estimate/estimate_options.h"
#include "cli/parse/strategy_text.h"
#include "dtrain/training_config.h"

namespace dtrain::cli {

// Nothing: all strategies are asked for. Fills in the optimizer: that of the config, else AdamW. Errors: it makes no
// sense, these ranks cannot carry it out, or a key of it cannot be estimated.
Result<std::optional<Strategy>> strategy_for(EstimateOptions& options, const ReadText& read);

}  // namespace dtrain::cli
