#pragma once
// How a parameter lies on the ranks that share it. Pure: no torch.
#include <cstdint>
#include <string>

#include "dtrain/errors.h"

namespace dtrain {

// Row-wise, a rank has some of the parameter's rows: indices of its first dimension. `owned`, one rank has all of it,
// and an optimizer that needs whole matrices, such as Muon, can work there without communication. In blocks of k rows,
// a block is never divided.
struct Placement {
  enum class Kind { rows, owned, blocks };
  Kind kind = Kind::rows;
  std::int64_t rows = 1;  // of a block

  static Placement owned() { return {Kind::owned, 1}; }
  // Throws ConfigError if `rows` is below 1.
  static Placement blocks_of(std::int64_t rows) {
    if (rows < 1)
      throw ConfigError("dtrain: Placement::blocks_of needs 1 row or more, and got " + std::to_string(rows));
    return {Kind::blocks, rows};
  }
  friend bool operator==(const Placement&, const Placement&) = default;
};

}  // namespace dtrain
