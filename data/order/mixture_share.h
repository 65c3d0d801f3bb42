#pragma once
// What a rank reads of each source for a batch of a mixture. Pure.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "data/order/batch_share.h"

namespace dtrain::data {

// Rows of a source that follow each other, and whether this rank has them.
struct SourceRun {
  std::int64_t rows = 0;
  bool is_own = false;

  bool operator==(const SourceRun&) const = default;
};

struct SourceShare {
  std::vector<SourceRun> runs;       // all rows that the global batch has of the source
  std::vector<std::int64_t> places;  // where this rank's rows of it are in the rank's batch, in the order of the runs
};

// `sources`: of each row of the global batch.
inline std::vector<SourceShare> source_shares(std::span<const std::uint32_t> sources, const BatchShare& share,
                                              std::size_t count) {
  std::vector<SourceShare> shares(count);
  for (std::size_t row = 0; row < sources.size(); ++row) {
    SourceShare& of = shares[sources[row]];
    const std::int64_t place = (static_cast<std::int64_t>(row) - share.lead() + share.batch_rows) % share.batch_rows;
    const bool is_own = place < share.rows;
    if (of.runs.empty() || of.runs.back().is_own != is_own) of.runs.push_back({0, is_own});
    ++of.runs.back().rows;
    if (is_own) of.places.push_back(place);
  }
  return shares;
}

}  // namespace dtrain::data
