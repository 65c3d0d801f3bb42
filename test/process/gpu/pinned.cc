// dtrain::ParquetLoader's batches in page-locked memory: copied while a GPU works, and gone before it has copied them.
//
//   pinned_worker cuda|cpu FILE    the file has one column `id`, with the numbers from 0 on
#include <torch/torch.h>

#include <iostream>
#include <string>
#include <vector>

#include "dtrain/parquet_loader.h"

namespace {

dtrain::ParquetLoader loader_of(const std::string& file) {
  return dtrain::ParquetLoader({.paths = {file},
                                .batch_size = 4096,
                                .shuffle = false,
                                .prefetch = 2,
                                .pin_memory = dtrain::PinMemory::automatic});
}

int fail(const std::string& why) {
  std::cerr << why << '\n';
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return fail("usage: pinned_worker cuda|cpu FILE");
  const torch::Device device{std::string(argv[1])};
  dtrain::ParquetLoader loader = loader_of(argv[2]);
  torch::Tensor work = torch::ones({2048, 2048}, device);
  std::vector<torch::Tensor> copied;
  int pinned = 0;
  while (auto batch = loader.next()) {
    for (int i = 0; i < 20 && device.is_cuda(); ++i) work = torch::tanh(work.matmul(work));
    pinned += batch->at("id").is_pinned();
    copied.push_back(batch->at("id").to(device, /*non_blocking=*/true));
  }
  if (device.is_cuda() && pinned != static_cast<int>(copied.size())) {
    return fail("only " + std::to_string(pinned) + " batches are pinned");
  }
  const torch::Tensor all = torch::cat(copied).cpu();
  if (!all.equal(torch::arange(all.numel()))) return fail("the copies have other values");
  std::cout << all.numel() << " rows on " << device << ", " << pinned << " batches pinned\n";
}
