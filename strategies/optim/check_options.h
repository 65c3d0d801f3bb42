#pragma once
// Whether options make sense, and which rate and decay a parameter has.
#include "dtrain/optimizer.h"

namespace dtrain {

// Throws ConfigError for the first option that is out of its range.
void check_options(const ShardedOptimizerOptions& options);

double lr_of(const OptimizerOptions& algorithm);

// The number of the first group that the parameter fits; groups.size() if there is none.
std::size_t group_of(const Shard& shard, const std::vector<ParameterGroup>& groups);

// True for a matrix that Muon updates.
bool is_muon_matrix(const Shard& shard, const Muon& muon);

// Throws ConfigError if the shards do not fill the run, or a type is not one that is updated.
void check_run(const ShardRun& run, std::size_t index);

// Throws ConfigError if a matrix is split over ranks.
void check_whole(const Shard& shard);

}  // namespace dtrain
