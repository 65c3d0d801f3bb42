#pragma once
// What a program predicts with, without tensors of any library and without Arrow.
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "data/base/host_batch.h"

namespace dtrain::data {

// What is read of each row group. As ParquetLoaderOptions' members of these names.
struct PredictColumns {
  std::vector<std::string> columns{};
  std::map<std::string, std::vector<std::string>> matrices{};
  std::map<std::string, double> fill{};
  std::vector<std::string> copied{};  // go into the result as they are, whatever their types
};

// Values that lie in the caller's memory until the result is written.
struct HostValues {
  ElementType type;
  std::vector<std::int64_t> shape;  // [rows] or [rows, n]
  const std::byte* values;
};
using HostColumn = std::variant<HostValues, std::vector<std::string>>;
using HostColumns = std::vector<std::pair<std::string, HostColumn>>;

struct HostPredictor {
  PredictColumns wanted;
  // `take` writes the result; it is called once. `names`: of the batch's tensors.
  std::function<void(const std::vector<std::string>& names, HostBatch batch,
                     const std::function<void(const HostColumns&)>& take)>
      predict;
};

}  // namespace dtrain::data
