#pragma once
// The rows of one unit on their way through the operations.
#include <arrow/array.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace dtrain::data {

struct Rows {
  std::size_t unit = 0;
  int done = -1;                                     // the last pass whose operations are done
  std::shared_ptr<arrow::UInt32Array> numbers;       // of each row in its unit, ascending
  std::vector<std::shared_ptr<arrow::Array>> slots;  // none: not needed

  std::int64_t count() const { return numbers->length(); }
};

}  // namespace dtrain::data
