// What the kernel's folders tell of GPUs.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "cli/base/text.h"
#include "cli/gpus/gpu_sources.h"
#include "launcher/base/small_file.h"

namespace dtrain::cli {
namespace {

// The value of "name value" in lines of that form, 0 without it.
std::uint64_t property(const std::string& text, const std::string& name) {
  for (const std::string& line : split(text, '\n'))
    if (line.starts_with(name + " ")) return std::strtoull(line.c_str() + name.size(), nullptr, 10);
  return 0;
}

// "GPU UUID: \t GPU-…" of the driver's information file; without the right to know, it says GPU-???????…
std::string uuid_in(const std::string& information) {
  std::size_t begin = information.find("GPU-");
  if (begin == std::string::npos || information.find('?', begin) != std::string::npos) return "";
  return information.substr(begin, information.find_first_of(" \t\n", begin) - begin);
}

}  // namespace

GpuInventory nvidia_in_proc(const std::string& folder) {
  GpuInventory inventory;
  for (const std::string& place : names_in(folder))
    inventory.gpus.push_back({uuid_in(launcher::read_small_file(folder + "/" + place + "/information")), place});
  return inventory;
}

GpuInventory amd_in_topology(const std::string& folder) {
  GpuInventory inventory;
  inventory.maker = GpuInventory::Maker::amd;
  auto nodes = names_in(folder);
  std::sort(nodes.begin(), nodes.end(), [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;  // 9 before 10
  });
  for (const std::string& node : nodes) {
    std::string text = launcher::read_small_file(folder + "/" + node + "/properties");
    if (property(text, "simd_count") == 0) continue;  // a processor, or a GPU that is not ours to use
    std::uint64_t place = property(text, "location_id"), id = property(text, "unique_id");
    Gpu gpu;
    gpu.pci_bus_id = fmt::format("{:04x}:{:02x}:{:02x}.{}", property(text, "domain"), (place >> 8) & 0xff,
                                 (place >> 3) & 0x1f, place & 7);
    if (id != 0) gpu.uuid = fmt::format("GPU-{:016x}", id);
    inventory.gpus.push_back(gpu);
  }
  return inventory;
}

}  // namespace dtrain::cli
