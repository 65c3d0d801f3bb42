#pragma once
// What the passes find out for an operation.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "data/recipe/moments.h"
#include "data/recipe/recipe.h"

namespace arrow {
class Array;
}

namespace dtrain::data {

struct Known {
  Moments moments;            // fill by the mean, and what scaling is made of
  Scaling scaling;            // normalize
  std::vector<Value> values;  // a vocabulary, the most frequent first; the mode
  // The values as an array of the column's type.
  std::shared_ptr<arrow::Array> array;
  // dedup: for each unit the numbers of the rows that go, ascending.
  std::vector<std::vector<std::uint32_t>> dropped;
};

}  // namespace dtrain::data
