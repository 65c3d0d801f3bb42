// Collects what `dtrain env` prints.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "cli/base/text.h"
#include "cli/base/version.h"
#include "cli/doctor/env_report.h"
#include "cli/gpus/gpus.h"
#include "cli/machine/host.h"
#include "cli/machine/machine_facts.h"
#include "cli/program/python_facts.h"
#include "launcher/base/small_file.h"
#include "launcher/guard/doctor_probe.h"
#include "launcher/process/containment.h"

namespace dtrain::cli {
namespace {

std::vector<Fact> dtrain_facts() {
  std::vector<Fact> facts;
  for (const std::string& line : split(version_text(), '\n')) {
    std::size_t blank = line.find(' ');
    std::size_t value = line.find_first_not_of(' ', blank);
    if (value != std::string::npos) facts.push_back({line.substr(0, blank), line.substr(value)});
  }
  std::string levels;
  for (const launcher::ContainmentProof& proof : launcher::prove_containment())
    if (proof.holds) levels += (levels.empty() ? "" : ", ") + std::string(launcher::to_string(proof.level));
  facts.push_back({"containment", levels.empty() ? "none holds" : levels});
  return facts;
}

// PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"
std::string distribution() {
  for (const std::string& line : split(launcher::read_small_file("/etc/os-release"), '\n')) {
    if (!line.starts_with("PRETTY_NAME=")) continue;
    std::string name = line.substr(line.find('=') + 1);
    std::erase(name, '"');
    return name;
  }
  return "unknown";
}

std::string soft_limit_text(int resource) {
  rlimit now = {};
  getrlimit(static_cast<__rlimit_resource_t>(resource), &now);
  auto text = [](rlim_t value) { return value == RLIM_INFINITY ? std::string("unlimited") : fmt::format("{}", value); };
  return fmt::format("{} of {}", text(now.rlim_cur), text(now.rlim_max));
}

std::string cgroup_text() {
  CgroupLimits limits = cgroup_limits();
  if (limits.folder.empty()) return "no cgroup v2";
  return fmt::format("{}; cores {}, memory {}", limits.folder,
                     limits.cores ? fmt::format("{:g}", *limits.cores) : "unlimited",
                     limits.bytes ? size_text(*limits.bytes) : "unlimited");
}

std::vector<Fact> system_facts(const Host& host) {
  utsname name = {};
  uname(&name);
  double page = static_cast<double>(sysconf(_SC_PAGESIZE));
  struct statvfs shm = {};
  bool has_shm = statvfs("/dev/shm", &shm) == 0;
  double shm_size = static_cast<double>(shm.f_blocks) * static_cast<double>(shm.f_frsize);
  return {{"kernel", fmt::format("{} {} {}", name.sysname, name.release, name.machine)},
          {"distribution", distribution()},
          {"cores", fmt::format("{} usable of {}", host.cpus, sysconf(_SC_NPROCESSORS_ONLN))},
          {"memory", fmt::format("{}, {} unused", size_text(page * static_cast<double>(sysconf(_SC_PHYS_PAGES))),
                                 size_text(page * static_cast<double>(sysconf(_SC_AVPHYS_PAGES))))},
          {"cgroup", cgroup_text()},
          {"open files", soft_limit_text(RLIMIT_NOFILE)},
          {"processes", soft_limit_text(RLIMIT_NPROC)},
          {"/dev/shm", has_shm ? size_text(shm_size) : "missing"}};
}

std::vector<Fact> gpu_facts(const Host& host) {
  GpuInventory inventory = host.gpus();
  std::vector<Fact> facts = {{"GPUs", fmt::format("{}", inventory.gpus.size())}};
  if (!inventory.problem.empty()) facts.push_back({"problem", inventory.problem});
  if (std::string version = nvidia_driver_version(); !version.empty()) facts.push_back({"NVIDIA driver", version});
  int number = 0;
  for (const std::string& gpu : nvidia_gpu_names()) facts.push_back({fmt::format("GPU {}", number++), gpu});
  return facts;
}

std::vector<Fact> python_rows(const Host& host) {
  PythonFacts python = python_facts(host);
  std::vector<Fact> facts = {{"python", python.command.empty() ? "none" : python.command}};
  if (!python.problem.empty()) facts.push_back({"problem", python.problem});
  if (python.executable.empty()) return facts;
  if (python.executable != python.command) facts.push_back({"executable", python.executable});
  facts.push_back({"version", python.version});
  facts.push_back({"torch", python.torch_file.empty() ? "none" : python.torch});
  if (python.torch_file.empty()) return facts;
  facts.push_back({"torch CUDA", python.cuda.empty() ? "none" : python.cuda});
  if (!python.hip.empty()) facts.push_back({"torch HIP", python.hip});
  facts.push_back({"torch file", python.torch_file});
  return facts;
}

}  // namespace

std::vector<FactGroup> env_facts() {
  Host host = this_host();
  if (host.token) host.env["DTRAIN_TOKEN"] = "set";  // shown as redacted
  return {{"dtrain", dtrain_facts()},
          {"system", system_facts(host)},
          {"GPUs", gpu_facts(host)},
          {"Python", python_rows(host)},
          {"variables", shown_variables(host.env)}};
}

}  // namespace dtrain::cli
