#include "data/torch/loaded_batch.h"

#include <utility>

#include "data/torch/host_tensors.h"

namespace dtrain::data {

LoadedBatch loaded_batch(HostBatch host, const std::vector<std::string>& names) {
  LoadedBatch batch{{}, host.rows, host.repeated, host.global_rows};
  for (std::size_t i = 0; i < host.tensors.size(); ++i) {
    batch.tensors.emplace(names[i], tensor_of(std::move(host.tensors[i])));
  }
  return batch;
}

}  // namespace dtrain::data
