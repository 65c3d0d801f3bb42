// Fuzzes what a GPU driver's child process says and the variables that choose among the GPUs: a choice is made of GPUs
// that exist, none of them twice.
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "cli/gpus/gpu_sources.h"
#include "cli/gpus/gpus.h"
#include "rendezvous/base/check.h"

using namespace dtrain::cli;

// Up to the first zero byte: the driver's lines; then, each up to the next one: three variables.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string rest(reinterpret_cast<const char*>(data), size);
  const auto take = [&rest] {
    const std::size_t end = std::min(rest.find('\0'), rest.size());
    std::string part = rest.substr(0, end);
    rest.erase(0, end + 1);
    return part;
  };
  GpuInventory inventory = parse_nvml(take());
  std::map<std::string, std::string> env;
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"})
    if (std::string value = take(); !value.empty()) env[name] = std::move(value);

  for (const auto maker : {GpuInventory::Maker::nvidia, GpuInventory::Maker::amd}) {
    inventory.maker = maker;
    const auto visible = visible_gpus(inventory, env);
    const int usable = usable_gpus(visible);
    DT_CHECK(usable >= 0 && static_cast<std::size_t>(usable) <= visible.size(), "what is used is visible");
    if (!inventory.problem.empty()) continue;  // the variables may be taken at their word
    std::size_t most = 0;
    for (const Gpu& gpu : inventory.gpus) most += std::max<std::size_t>(1, gpu.instances.size());
    DT_CHECK(visible.size() <= most, "what is visible exists");
  }
  return 0;
}
