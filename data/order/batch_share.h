#pragma once
// Which rows of a global batch a rank has. Pure.
//
// A full global batch is divided evenly. The last one of an epoch may have fewer rows. It is left out on every rank, or
// each rank gets as many of its rows as there are for the first rank, and the last ranks get some of its first rows
// again. So all ranks have the same number of batches, of the same sizes, whatever the numbers are.
#include <algorithm>
#include <array>
#include <cstdint>

namespace dtrain::data {

struct BatchShare {
  std::int64_t batch_rows = 0;  // of all ranks together
  std::int64_t first = 0;       // this rank's first row in the batch
  std::int64_t rows = 0;        // of this rank, repeated ones included
  std::int64_t repeated = 0;    // how many of them, at their end, another row of the batch has already been

  // Row r of the batch has the places r - lead(), r - lead() + batch_rows and so on on this rank, as far as they are in
  // [0, rows).
  std::int64_t lead() const { return first % batch_rows; }

  // The rows of the batch that this rank has, as two ranges in order, of which one may be empty.
  struct Rows {
    std::int64_t begin, end;
  };
  std::array<Rows, 2> parts() const {
    const std::int64_t end = lead() + rows;
    return {{{0, std::max<std::int64_t>(0, end - batch_rows)}, {lead(), std::min(end, batch_rows)}}};
  }
};

// `left`: rows of the epoch that no batch has had. batch_rows is 0 if the epoch is over.
inline BatchShare next_share(std::int64_t left, std::int64_t rank_rows, int rank, int world_size, bool drop_last) {
  const std::int64_t batch_rows = std::min(left, rank_rows * world_size);
  if (batch_rows == 0 || (drop_last && batch_rows < rank_rows * world_size)) return {};
  const std::int64_t rows = (batch_rows + world_size - 1) / world_size;
  const std::int64_t own = std::clamp(batch_rows - rows * rank, std::int64_t{0}, rows);
  return {batch_rows, rows * rank, rows, rows - own};
}

}  // namespace dtrain::data
