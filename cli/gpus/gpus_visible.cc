// The rules of CUDA_VISIBLE_DEVICES and its relatives.
#include <algorithm>
#include <cctype>
#include <optional>

#include "cli/base/text.h"
#include "cli/gpus/gpus.h"

namespace dtrain::cli {
namespace {

using Env = std::map<std::string, std::string>;

// CUDA reads an index as strtoul does: "1st" is 1, "x" nothing.
std::optional<std::size_t> index_of(const std::string& text) {
  std::size_t digits = 0, value = 0;
  while (digits < text.size() && digits < 9 && std::isdigit(static_cast<unsigned char>(text[digits])) != 0)
    value = value * 10 + static_cast<std::size_t>(text[digits++] - '0');
  if (digits == 0) return std::nullopt;
  return value;
}

Gpu one_instance(const Gpu& gpu, const MigInstance& instance) {
  return {instance.uuid, gpu.pci_bus_id, true, {instance}};
}

// Every GPU as an index means it. In MIG mode a GPU is its first instance, and nothing without one.
std::vector<Gpu> whole(const GpuInventory& inventory) {
  std::vector<Gpu> all;
  for (const Gpu& gpu : inventory.gpus) {
    if (!gpu.mig)
      all.push_back(gpu);
    else if (!gpu.instances.empty())
      all.push_back(one_instance(gpu, gpu.instances[0]));
  }
  return all;
}

// "MIG-<uuid>" or its beginning, or the older "MIG-GPU-<uuid>/<gpu instance>/<compute instance>".
std::vector<Gpu> named_instances(const GpuInventory& inventory, const std::string& name) {
  std::vector<Gpu> fitting;
  for (const Gpu& gpu : inventory.gpus)
    for (const MigInstance& instance : gpu.instances) {
      std::string older = "MIG-" + gpu.uuid + "/" + std::to_string(instance.gpu_instance) + "/" +
                          std::to_string(instance.compute_instance);
      if (lower(older) == lower(name) || lower(instance.uuid).starts_with(lower(name)))
        fitting.push_back(one_instance(gpu, instance));
    }
  return fitting;
}

std::vector<Gpu> named(const GpuInventory& inventory, const std::vector<Gpu>& all, const std::string& name) {
  if (name.starts_with("MIG-")) return named_instances(inventory, name);
  if (name.starts_with("GPU-")) {
    std::vector<Gpu> fitting;
    for (const Gpu& gpu : all)
      if (lower(gpu.uuid).starts_with(lower(name))) fitting.push_back(gpu);
    return fitting;
  }
  auto index = index_of(name);
  if (!index || *index >= all.size()) return {};
  return {all[*index]};
}

bool is_a_name(const std::string& name) {
  return name.starts_with("GPU-") || name.starts_with("MIG-") || index_of(name).has_value();
}

bool same(const Gpu& a, const Gpu& b) { return a.uuid == b.uuid && a.pci_bus_id == b.pci_bus_id; }

// What `list` leaves of `all`.
std::vector<Gpu> chosen(const GpuInventory& inventory, const std::vector<Gpu>& all, const std::string& list) {
  bool unknown = all.empty() && !inventory.problem.empty();
  std::vector<Gpu> visible;
  for (const std::string& part : split(list, ',')) {
    std::string name = trimmed(part);
    auto fitting = named(inventory, all, name);
    if (unknown && is_a_name(name)) fitting = {{name, "", name.starts_with("MIG-")}};
    if (fitting.size() != 1) break;
    auto twice = [&](const Gpu& gpu) { return same(gpu, fitting[0]); };
    if (std::any_of(visible.begin(), visible.end(), twice)) return {};
    visible.push_back(fitting[0]);
  }
  return visible;
}

}  // namespace

std::vector<Gpu> visible_gpus(const GpuInventory& inventory, const Env& env) {
  std::vector<Gpu> visible = whole(inventory);
  auto narrow = [&](const char* name) {
    auto list = env.find(name);
    if (list == env.end()) return false;
    visible = chosen(inventory, visible, list->second);
    return true;
  };
  if (inventory.maker == GpuInventory::Maker::nvidia) {
    narrow("CUDA_VISIBLE_DEVICES");
  } else {
    narrow("ROCR_VISIBLE_DEVICES");
    if (!narrow("HIP_VISIBLE_DEVICES")) narrow("CUDA_VISIBLE_DEVICES");
  }
  return visible;
}

int usable_gpus(const std::vector<Gpu>& visible) {
  if (!visible.empty() && visible[0].mig) return 1;
  auto whole_ones = std::find_if(visible.begin(), visible.end(), [](const Gpu& gpu) { return gpu.mig; });
  return static_cast<int>(whole_ones - visible.begin());
}

}  // namespace dtrain::cli
