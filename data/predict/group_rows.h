#pragma once
// The rows of a part, as tensors and as columns that are copied.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/base/host_batch.h"
#include "data/predict/host_predictor.h"
#include "data/predict/part_plan.h"

namespace arrow {
class Table;
}

namespace dtrain::data {

class ParquetSet;

// Rows of each row group, by the footer. Throws DataError.
std::vector<std::int64_t> row_groups_of(const std::string& path);

struct GroupRows {
  std::vector<std::string> names;  // of the tensors
  HostBatch batch;
  std::shared_ptr<arrow::Table> copied;
};

class GroupReader {
 public:
  GroupReader(const std::vector<PredictFile>& files, PredictColumns wanted);
  ~GroupReader();
  // Throws DataError, and ConfigError if the columns that are wanted make no sense.
  GroupRows read(const Part& part);

 private:
  void open(std::size_t file);

  const std::vector<PredictFile>& files_;
  const PredictColumns wanted_;
  std::unique_ptr<ParquetSet> set_;  // of the file that was read last, beside the first one
  std::size_t opened_ = 0;
};

}  // namespace dtrain::data
