#pragma once
// Where the parameters of a group lie in its buffer, and which part of the buffer is whose. The parameters lie there
// whole, one after the other, and each rank's part is one stretch of the buffer: so an all-gather and a reduce-scatter
// work on the buffer as it is, and nothing is copied before or after them. A part begins and ends between rows, between
// blocks of rows, or between parameters, as each parameter's placement allows.
//
// The same way was found by others: Tan et al., "veScale-FSDP: Flexible and High-Performance FSDP at Scale", 2026
// (RaggedShard); where theirs pads parameters, the order of the parameters is chosen here. Pure.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "dtrain/placement.h"

namespace dtrain {

struct LaidOutParameter {
  std::int64_t rows = 0;  // 1 for a scalar
  std::int64_t row = 0;   // elements of a row
  Placement placement{};

  std::int64_t elements() const { return rows * row; }
};

struct GroupLayout {
  std::vector<std::int64_t> at;      // where each parameter begins, in their order
  std::vector<std::size_t> order;    // the parameters, as they lie
  std::int64_t elements = 0;         // of the buffer; what lies behind the last parameter belongs to none
  std::vector<std::int64_t> bounds;  // rank r's part is [bounds[r], bounds[r + 1])

  std::int64_t begin(int rank) const { return bounds[static_cast<std::size_t>(rank)]; }
  std::int64_t size(int rank) const { return bounds[static_cast<std::size_t>(rank) + 1] - begin(rank); }
  // All parts have one size.
  bool even() const;
};

// `loads`: the bytes that each rank has of the groups laid out so far, one number for each rank; those of this group,
// whose elements have `element_bytes` each, are added. If a parameter of the group is owned, none of its parameters is
// divided, and they go to the ranks that have least. Otherwise parts have one size where at most a sixteenth of the
// buffer is wasted for that, and nearly one size where not.
GroupLayout lay_out(const std::vector<LaidOutParameter>& parameters, std::int64_t element_bytes,
                    std::vector<std::int64_t>& loads);

}  // namespace dtrain
