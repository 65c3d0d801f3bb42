#pragma once
// What dtrain-data has answered about a data set, for a job. Pure.
#include <cstdint>
#include <map>
#include <string>

#include "rendezvous/base/result.h"

namespace dtrain::cli {

struct DatasetFound {
  std::string folder{};                            // the entry of the cache
  std::map<std::string, std::string> variables{};  // DTRAIN_DATASET, and DTRAIN_DATASET_SPLIT of the other splits
  std::uint64_t rows = 0;                          // of all splits
  std::string line{};                              // for the user
};
Result<DatasetFound> parse_dataset_found(const std::string& answer);

}  // namespace dtrain::cli
