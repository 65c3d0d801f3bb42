#pragma once
// What `dtrain estimate` prints. Pure.
#include <optional>
#include <string>
#include <vector>

#include "cli/estimate/estimate_model.h"
#include "cli/estimate/estimate_options.h"

namespace dtrain::cli {

struct EstimateRow {
  std::string strategy;   // as --strategy takes it
  std::string precision;  // "float32", or what the module computes in
  config::RankMemory memory;
  bool fits = true;  // into --memory, if it is given
};

// Of one strategy, or of all.
std::vector<EstimateRow> estimate_rows(const EstimatedModel& model, const EstimateOptions& options,
                                       const std::optional<Strategy>& strategy = std::nullopt);
std::string estimate_text(const EstimatedModel& model, const EstimateOptions& options,
                          const std::vector<EstimateRow>& rows);
std::string estimate_json(const EstimatedModel& model, const EstimateOptions& options,
                          const std::vector<EstimateRow>& rows);

}  // namespace dtrain::cli
