// `dtrain doctor`: GPUs, Python and torch, whether they match, and what killed builds of extensions have left.
#include <fmt/format.h>

#include <charconv>

#include "cli/base/text.h"
#include "cli/doctor/doctor.h"
#include "cli/gpus/gpus.h"
#include "cli/machine/host.h"
#include "cli/machine/machine_facts.h"
#include "cli/program/build_lock_search.h"

namespace dtrain::cli {
namespace {

using Level = Finding::Level;

// "2.15.0+cpu" -> 2015; 0 if it is no version.
int version_number(const std::string& text) {
  int major = 0, minor = 0;
  const char* end = text.data() + text.size();
  auto first = std::from_chars(text.data(), end, major);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '.') return 0;
  auto second = std::from_chars(first.ptr + 1, end, minor);
  return second.ec == std::errc() ? major * 1000 + minor : 0;
}

Finding judge_torch(const PythonFacts& facts, int gpus) {
  constexpr int kOldest = 2011, kNewest = 2015;  // scripts/requirements-torch-*.txt
  std::string build = !facts.cuda.empty()  ? "built for CUDA " + facts.cuda
                      : !facts.hip.empty() ? "built for ROCm " + facts.hip
                                           : "a build for CPUs";
  Finding finding{Level::ok, "torch", fmt::format("{}, {}, in {}", printable(facts.torch), build, facts.torch_file),
                  ""};
  int version = version_number(facts.torch);
  if (gpus > 0 && facts.cuda.empty() && facts.hip.empty()) {
    finding.level = Level::warn;
    finding.cure = "this torch cannot use the GPUs: install a build for them, see pytorch.org";
  } else if (version < kOldest || version > kNewest) {
    finding.level = Level::warn;
    finding.cure = "dtrain is tested with torch 2.11 to 2.15; other versions may work too";
  }
  return finding;
}

}  // namespace

Findings judge_python(const PythonFacts& facts, int gpus) {
  if (!facts.problem.empty())
    return {{Level::warn, "python", facts.problem, "only Python programs need it; compiled programs run without it"}};
  std::string shim = facts.executable == facts.command ? "" : fmt::format(", through {}", facts.command);
  Findings findings = {{Level::ok, "python", fmt::format("{} ({}){}", facts.executable, facts.version, shim), ""}};
  if (facts.torch_file.empty())
    findings.push_back({Level::warn, "torch", "not found by " + facts.executable,
                        "pip install torch, or activate the environment that has it, or name its Python in "
                        "PYTHON_EXEC"});
  else
    findings.push_back(judge_torch(facts, gpus));
  return findings;
}

Findings check_gpus() {
  Host host = this_host();
  GpuInventory inventory = host.gpus();
  Findings findings;
  if (!inventory.problem.empty())
    findings.push_back(
        {Level::warn, "GPU driver", inventory.problem, "does nvidia-smi work here? is the driver loaded?"});
  std::size_t all = inventory.gpus.size();
  if (all == 0) {
    findings.push_back({Level::ok, "GPUs", "none that a driver reports", ""});
    return findings;
  }
  const char* maker = inventory.maker == GpuInventory::Maker::amd ? "AMD" : "NVIDIA";
  int usable = usable_gpus(visible_gpus(inventory, host.env));
  std::string driver = nvidia_driver_version();
  std::string version = driver.empty() ? "" : fmt::format(", driver {}", driver);
  findings.push_back(
      {Level::ok, "GPUs", fmt::format("{} {}, {} usable by a worker{}", all, maker, usable, version), ""});
  if (usable == 0) {
    findings.back().level = Level::warn;
    findings.back().cure = "the environment hides them all: see CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES";
  }
  return findings;
}

Findings check_python() {
  Host host = this_host();
  return judge_python(python_facts(host), usable_gpus(visible_gpus(listed_gpus(), host.env)));
}

Findings check_build_locks() {
  Findings findings;
  for (const BuildLock& lock : left_build_locks(this_host()))
    findings.push_back({Level::warn, "build lock", lock_found(lock), lock_cure(lock)});
  return findings;
}

}  // namespace dtrain::cli
