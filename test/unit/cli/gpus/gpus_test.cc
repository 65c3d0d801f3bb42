// The rules of CUDA_VISIBLE_DEVICES, and what is read from the drivers' folders and from a made-up NVML.
#include "cli/gpus/gpus.h"

#include <cstdlib>
#include <filesystem>

#include "cli/gpus/gpu_sources.h"
#include "test/support/catch.h"
#include "test/support/temp_folder.h"

using namespace dtrain;
using namespace dtrain::cli;
using Env = std::map<std::string, std::string>;
using Words = std::vector<std::string>;

namespace {

Words uuids(const std::vector<Gpu>& gpus) {
  Words names;
  for (const Gpu& gpu : gpus) names.push_back(gpu.uuid);
  return names;
}

const GpuInventory kFour = {{},
                            {{"GPU-aa10", "0000:01:00.0"},
                             {"GPU-aa20", "0000:02:00.0"},
                             {"GPU-bb30", "0000:03:00.0"},
                             {"GPU-cc40", "0000:04:00.0"}},
                            ""};

Words cuda(const std::string& list, const GpuInventory& inventory = kFour) {
  return uuids(visible_gpus(inventory, {{"CUDA_VISIBLE_DEVICES", list}}));
}

GpuInventory with_mig() {
  GpuInventory inventory = kFour;
  inventory.gpus[1].mig = true;
  inventory.gpus[1].instances = {{"MIG-1a", 1, 0}, {"MIG-1b", 2, 0}, {"MIG-2c", 3, 1}};
  inventory.gpus[2].mig = true;  // no instance has been made
  return inventory;
}

void write(const test::TempFolder& folder, const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(folder / path).parent_path());
  folder.write(path, text);
}

// FAKE_NVML for one test.
struct Fake {
  explicit Fake(const char* what) { setenv("FAKE_NVML", what, 1); }
  ~Fake() { unsetenv("FAKE_NVML"); }
};

}  // namespace

TEST_CASE("without a variable all GPUs are visible") {
  CHECK(uuids(visible_gpus(kFour, {})) == Words{"GPU-aa10", "GPU-aa20", "GPU-bb30", "GPU-cc40"});
  CHECK(visible_gpus({}, {}).empty());
  CHECK(uuids(visible_gpus(kFour, Env{{"HIP_VISIBLE_DEVICES", "0"}})).size() == 4);
}

TEST_CASE("CUDA_VISIBLE_DEVICES by index") {
  CHECK(cuda("2,0") == Words{"GPU-bb30", "GPU-aa10"});
  CHECK(cuda(" 1 , 3") == Words{"GPU-aa20", "GPU-cc40"});
  CHECK(cuda("1st,2nd") == Words{"GPU-aa20", "GPU-bb30"});
  CHECK(cuda("") == Words{});
  CHECK(cuda("-1") == Words{});
  CHECK(cuda("0,-1,2") == Words{"GPU-aa10"});
  CHECK(cuda("0,4,1") == Words{"GPU-aa10"});
  CHECK(cuda("0,99999999999999999999,1") == Words{"GPU-aa10"});
  CHECK(cuda("0,,1") == Words{"GPU-aa10"});
  CHECK(cuda("NoDevFiles") == Words{});
  CHECK(cuda("void") == Words{});
  CHECK(cuda("0,1,0") == Words{});
}

TEST_CASE("CUDA_VISIBLE_DEVICES by UUID") {
  CHECK(cuda("GPU-cc40,GPU-aa10") == Words{"GPU-cc40", "GPU-aa10"});
  CHECK(cuda("GPU-AA2,GPU-b") == Words{"GPU-aa20", "GPU-bb30"});
  CHECK(cuda("GPU-bb,GPU-aa,GPU-cc") == Words{"GPU-bb30"});  // aa: which of the two?
  CHECK(cuda("GPU-zz,0") == Words{});
  CHECK(cuda("GPU-cc40,GPU-cc") == Words{});
  CHECK(visible_gpus(kFour, {{"CUDA_VISIBLE_DEVICES", "GPU-cc"}})[0].pci_bus_id == "0000:04:00.0");
}

TEST_CASE("MIG instances") {
  CHECK(uuids(visible_gpus(with_mig(), {})) == Words{"GPU-aa10", "MIG-1a", "GPU-cc40"});
  CHECK(cuda("MIG-1b,MIG-2c", with_mig()) == Words{"MIG-1b", "MIG-2c"});
  CHECK(cuda("MIG-2", with_mig()) == Words{"MIG-2c"});
  CHECK(cuda("MIG-1", with_mig()) == Words{});
  CHECK(cuda("MIG-GPU-aa20/3/1,MIG-GPU-aa20/1/0", with_mig()) == Words{"MIG-2c", "MIG-1a"});
  CHECK(cuda("MIG-GPU-aa20/9/0", with_mig()) == Words{});
  auto visible = visible_gpus(with_mig(), {{"CUDA_VISIBLE_DEVICES", "MIG-1b,MIG-2c"}});
  CHECK(visible[0].pci_bus_id == "0000:02:00.0");
  CHECK(usable_gpus(visible) == 1);
  CHECK(usable_gpus(visible_gpus(kFour, {})) == 4);
  CHECK(usable_gpus(visible_gpus(with_mig(), {})) == 1);
  CHECK(usable_gpus({}) == 0);
}

TEST_CASE("AMD: ROCR first, then HIP among those") {
  GpuInventory amd = kFour;
  amd.maker = GpuInventory::Maker::amd;
  CHECK(uuids(visible_gpus(amd, {{"ROCR_VISIBLE_DEVICES", "3,1"}})) == Words{"GPU-cc40", "GPU-aa20"});
  CHECK(uuids(visible_gpus(amd, {{"ROCR_VISIBLE_DEVICES", "3,1"}, {"HIP_VISIBLE_DEVICES", "1"}})) == Words{"GPU-aa20"});
  CHECK(uuids(visible_gpus(amd, {{"HIP_VISIBLE_DEVICES", "2"}, {"CUDA_VISIBLE_DEVICES", "0"}})) == Words{"GPU-bb30"});
  CHECK(uuids(visible_gpus(amd, {{"CUDA_VISIBLE_DEVICES", "0"}})) == Words{"GPU-aa10"});
}

TEST_CASE("where the driver does not list its GPUs, the variable is taken at its word") {
  GpuInventory silent{{}, {}, "NVML does not answer"};
  CHECK(visible_gpus(silent, {}).empty());
  CHECK(cuda("3,GPU-5a,0", silent).size() == 3);
  CHECK(cuda("3,3", silent).empty());
  CHECK(cuda("3,-1,0", silent).size() == 1);
  CHECK(usable_gpus(visible_gpus(silent, {{"CUDA_VISIBLE_DEVICES", "MIG-a,MIG-b"}})) == 1);
  CHECK(cuda("0,1", GpuInventory{}).empty());
}

TEST_CASE("the NVIDIA driver's folder") {
  test::TempFolder folder;
  CHECK(nvidia_in_proc(folder / "none").gpus.empty());
  write(folder, "0000:3b:00.0/information", "Model: \t\t X\nGPU UUID: \t GPU-1f2e-3d\nBus Type: \t PCIe\n");
  write(folder, "0000:1a:00.0/information", "GPU UUID: \t GPU-" + std::string(8, char(63)) + "\n");
  auto inventory = nvidia_in_proc(folder.path().string());
  REQUIRE(inventory.gpus.size() == 2);
  CHECK(inventory.gpus[0].pci_bus_id == "0000:1a:00.0");
  CHECK(inventory.gpus[0].uuid.empty());
  CHECK(inventory.gpus[1].uuid == "GPU-1f2e-3d");
}

TEST_CASE("AMD's topology") {
  test::TempFolder folder;
  write(folder, "0/properties", "cpu_cores_count 64\nsimd_count 0\n");
  write(folder, "10/properties", "cpu_cores_count 0\nsimd_count 440\nlocation_id 49664\ndomain 1\n");
  write(folder, "2/properties", "simd_count 440\nlocation_id 768\ndomain 0\nunique_id 11527806480452183217\n");
  write(folder, "3/properties", "");  // a GPU that the container may not use
  auto inventory = amd_in_topology(folder.path().string());
  CHECK(inventory.maker == GpuInventory::Maker::amd);
  REQUIRE(inventory.gpus.size() == 2);
  CHECK(inventory.gpus[0].uuid == "GPU-9ffafeeac2cc64b1");
  CHECK(inventory.gpus[0].pci_bus_id == "0000:03:00.0");
  CHECK(inventory.gpus[1].uuid.empty());
  CHECK(inventory.gpus[1].pci_bus_id == "0001:c2:00.0");
}

TEST_CASE("NVML tells of GPUs, their places and their instances") {
  Fake fake("2 mig:3");
  auto inventory = driver_gpus();
  CHECK(inventory.problem.empty());
  REQUIRE(inventory.gpus.size() == 2);
  CHECK(inventory.gpus[0].uuid == "GPU-00000000-fa4e-0000-0000-000000000000");
  CHECK(inventory.gpus[0].pci_bus_id == "0000:1a:00.0");
  CHECK_FALSE(inventory.gpus[0].mig);
  CHECK(inventory.gpus[1].pci_bus_id == "0000:1b:00.0");
  CHECK(inventory.gpus[1].mig);
  REQUIRE(inventory.gpus[1].instances.size() == 3);
  CHECK(inventory.gpus[1].instances[2].uuid == "MIG-00000001-fa4e-0000-0000-000000000002");
  CHECK(inventory.gpus[1].instances[2].gpu_instance == 3);
}

TEST_CASE("only a GPU in MIG mode has instances, whatever the driver's lines say") {
  const auto gpus = parse_nvml("gpu GPU-a 0:01:00.0 0\nmig MIG-x 1 0\ngpu GPU-b 0:02:00.0 1\nmig MIG-y 1 0\n").gpus;
  REQUIRE(gpus.size() == 2);
  CHECK(gpus[0].instances.empty());
  CHECK(gpus[1].instances.size() == 1);
}

TEST_CASE("a driver library that fails, crashes or hangs is a problem and no more") {
  auto problem = [](const char* what) {
    Fake fake(what);
    auto inventory = driver_gpus(std::chrono::milliseconds(300));
    CHECK(inventory.gpus.empty());
    return inventory.problem;
  };
  CHECK(problem("init:9") == "NVML: nvmlInit failed (9)");
  CHECK(problem("hang") == "NVML does not answer");
  CHECK(problem("crash").starts_with("NVML crashed ("));
  CHECK(problem("0").empty());
  Fake fake("3 lost");
  auto inventory = driver_gpus();
  CHECK(inventory.gpus.size() == 2);
  CHECK(inventory.problem.starts_with("NVML: a GPU does not answer"));
}
