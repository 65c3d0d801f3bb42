#pragma once
// A batch of plain memory as torch's tensors.
#include <string>
#include <vector>

#include "data/base/host_batch.h"
#include "dtrain/parquet_loader.h"

namespace dtrain::data {

// `names`: of the batch's tensors.
LoadedBatch loaded_batch(HostBatch batch, const std::vector<std::string>& names);

}  // namespace dtrain::data
