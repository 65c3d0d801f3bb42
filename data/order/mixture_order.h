#pragma once
// Which source each row of a mixture comes from: a function of the seed, the epoch, the weights and when they changed.
// Pure.
//
// A weight is a source's part of a row, in parts of 2^-32; the weights of all are one row together. With each row of
// the mixture every source has a claim to its weight, and the source that the row comes from has got a whole row.
// `behind` is what a source still has to get, so all of them together are 0. These are whole numbers, so nothing
// drifts.
//
// The next row comes from a source that has something to get. Of these it is the one that would first be a whole row
// behind, and where several would be at the same time, the seed decides. This is the rule of Baruah, Cohen, Plaxton and
// Varvel (Proportionate progress, Algorithmica 15, 1996) for one resource. Their proof says: while the weights stay as
// they are at the begin of an epoch, each source's rows are at every row less than one from its part.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "dtrain/mixture_options.h"

namespace dtrain::data {

struct SourceCount {
  std::int64_t weight = 0;  // parts of MixtureOrder::whole_row
  std::int64_t behind = 0;  // of the same size. 0 without a weight
  std::int64_t taken = 0;   // rows in this epoch of the mixture

  bool operator==(const SourceCount&) const = default;
};

class MixtureOrder {
 public:
  static constexpr std::int64_t whole_row = std::int64_t{1} << 32;

  // `rows`: how many each source has, at least 1. `counts`: where the epoch is; the weights are whole_row together.
  MixtureOrder(std::uint64_t seed, std::uint64_t epoch, std::span<const std::int64_t> rows, MixtureEnd ends,
               std::vector<SourceCount> counts);

  // The numbers of the sources of the next rows. There are `count` of them, or fewer and then the epoch is over.
  std::vector<std::uint32_t> take(std::int64_t count);

  // After the rows that have been taken.
  const std::vector<SourceCount>& counts() const { return counts_; }

 private:
  std::size_t next_source() const;
  bool is_before(std::size_t source, std::size_t other) const;
  bool is_over(std::size_t next) const;

  std::uint64_t key_;
  std::vector<std::int64_t> rows_;
  MixtureEnd ends_;
  std::vector<SourceCount> counts_;
  std::uint64_t row_ = 0;  // of the epoch
};

// Weights as parts of whole_row, which they are together. Nothing if one is negative or no number, or if all are 0. A
// weight that is not 0 has one part at least.
std::optional<std::vector<std::int64_t>> weight_parts(std::span<const double> weights);

// What a source still has to get stays. A source whose weight becomes 0 gives that to the others, by their weights.
void set_weights(std::vector<SourceCount>& counts, std::span<const std::int64_t> parts);

}  // namespace dtrain::data
