// NVML, by hand: the header is not needed for a few functions. Runs in a child process.
#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <string>

#include "cli/base/parse_value.h"
#include "cli/base/text.h"
#include "cli/gpus/gpu_sources.h"

namespace dtrain::cli {
namespace {

using Device = void*;
constexpr std::size_t kUuidSize = 96;
constexpr int kFunctionNotFound = 13;

struct PciInfo {  // nvmlPciInfo_t
  char bus_id_legacy[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};

// A function of the library: its answer is 0 for success. Calling one that the library lacks is an error.
template <class... Arguments>
class Function {
 public:
  Function(void* library, const char* name) : call_(reinterpret_cast<int (*)(Arguments...)>(dlsym(library, name))) {}
  int operator()(Arguments... arguments) const { return call_ != nullptr ? call_(arguments...) : kFunctionNotFound; }

 private:
  int (*call_)(Arguments...);
};

struct Nvml {
  explicit Nvml(void* library) : library_(library) {}
  void* library_;
  Function<> init{library_, "nvmlInit_v2"};
  Function<unsigned*> count{library_, "nvmlDeviceGetCount_v2"};
  Function<unsigned, Device*> by_index{library_, "nvmlDeviceGetHandleByIndex_v2"};
  Function<Device, char*, unsigned> uuid{library_, "nvmlDeviceGetUUID"};
  Function<Device, PciInfo*> pci{library_, "nvmlDeviceGetPciInfo_v3"};
  Function<Device, unsigned*, unsigned*> mig_mode{library_, "nvmlDeviceGetMigMode"};
  Function<Device, unsigned*> most_instances{library_, "nvmlDeviceGetMaxMigDeviceCount"};
  Function<Device, unsigned, Device*> instance{library_, "nvmlDeviceGetMigDeviceHandleByIndex"};
  Function<Device, unsigned*> gpu_instance{library_, "nvmlDeviceGetGpuInstanceId"};
  Function<Device, unsigned*> compute_instance{library_, "nvmlDeviceGetComputeInstanceId"};
};

std::string uuid_of(const Nvml& nvml, Device device) {
  char text[kUuidSize + 1] = {};
  return nvml.uuid(device, text, kUuidSize) == 0 ? text : "";
}

std::string instances(const Nvml& nvml, Device device) {
  std::string text;
  unsigned most = 0;
  if (nvml.most_instances(device, &most) != 0) return "";
  for (unsigned i = 0; i < most; ++i) {
    Device part = nullptr;
    unsigned gpu = 0, compute = 0;
    if (nvml.instance(device, i, &part) != 0) continue;
    if (nvml.gpu_instance(part, &gpu) != 0 || nvml.compute_instance(part, &compute) != 0) continue;
    text += fmt::format("mig {} {} {}\n", uuid_of(nvml, part), gpu, compute);
  }
  return text;
}

std::string describe(const Nvml& nvml, unsigned index) {
  Device device = nullptr;
  if (int error = nvml.by_index(index, &device); error != 0) return fmt::format("lost {}\n", error);
  PciInfo place = {};
  std::string bus_id;
  if (nvml.pci(device, &place) == 0)
    bus_id = fmt::format("{:04x}:{:02x}:{:02x}.0", place.domain, place.bus, place.device);
  unsigned mode = 0, pending = 0;
  bool mig = nvml.mig_mode(device, &mode, &pending) == 0 && mode == 1;
  return fmt::format("gpu {} {} {}\n", uuid_of(nvml, device), bus_id, mig ? 1 : 0) +
         (mig ? instances(nvml, device) : "");
}

std::string nvml_listing(void* library) {
  Nvml nvml(library);
  unsigned count = 0;
  if (int error = nvml.init(); error != 0) return fmt::format("error nvmlInit {}\n", error);
  if (int error = nvml.count(&count); error != 0) return fmt::format("error nvmlDeviceGetCount {}\n", error);
  std::string text;
  for (unsigned i = 0; i < count; ++i) text += describe(nvml, i);
  return text;
}

int slice_number(const std::string& text) {
  auto value = parse_number(text, 0, 1 << 20);
  return value ? *value : -1;
}

}  // namespace

void tell_nvml(int fd) {
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return;
  std::string text = nvml_listing(library);
  for (std::size_t done = 0; done < text.size();) {
    ssize_t size = write(fd, text.data() + done, text.size() - done);
    if (size <= 0) return;
    done += static_cast<std::size_t>(size);
  }
}

GpuInventory parse_nvml(const std::string& text) {
  GpuInventory inventory;
  for (const std::string& line : split(text, '\n')) {
    auto words = split(line, ' ');
    if (words[0] == "error" && words.size() == 3)
      inventory.problem = fmt::format("NVML: {} failed ({})", words[1], words[2]);
    else if (words[0] == "lost")
      inventory.problem = "NVML: a GPU does not answer (nvidia-smi shows which)";
    else if (words[0] == "gpu" && words.size() == 4)
      inventory.gpus.push_back({words[1], words[2], words[3] == "1"});
    else if (words[0] == "mig" && words.size() == 4 && !inventory.gpus.empty() && inventory.gpus.back().mig)
      inventory.gpus.back().instances.push_back({words[1], slice_number(words[2]), slice_number(words[3])});
  }
  return inventory;
}

}  // namespace dtrain::cli
