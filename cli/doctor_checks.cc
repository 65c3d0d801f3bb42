// What `dtrain doctor` looks at.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "cli/doctor.h"
#include "cli/host.h"
#include "cli/program.h"
#include "cli/text.h"
#include "launcher/containment.h"
#include "launcher/doctor_probe.h"
#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain::cli {
namespace {

using Level = Finding::Level;
using Findings = std::vector<Finding>;

constexpr double kMiB = 1024.0 * 1024.0;

std::string size_text(double bytes) {
  return bytes >= 1024 * kMiB ? fmt::format("{:.1f} GiB", bytes / 1024 / kMiB)
                              : fmt::format("{:.0f} MiB", bytes / kMiB);
}

// subreaper is what every job can fall back on; the others are stronger, and a matter of the machine's set-up.
Findings check_containment() {
  Findings findings;
  for (const launcher::ContainmentProof& proof : launcher::prove_containment()) {
    Finding finding{Level::ok, fmt::format("contain={}", launcher::to_string(proof.level)), proof.detail, ""};
    if (!proof.holds && proof.level == launcher::Containment::subreaper) {
      finding.level = Level::fail;
      finding.cure = "jobs cannot be held together here: allow fork, prctl and signals to dtrain";
    } else if (!proof.holds) {
      finding.level = Level::warn;
      finding.cure = proof.level == launcher::Containment::cgroup
                         ? "jobs use subreaper instead; for cgroup give dtrain a writable cgroup v2 folder, e.g. "
                           "systemd-run --user --scope -p Delegate=yes dtrain run ..."
                         : "only --contain pidns needs it: allow user namespaces, or run as root";
    }
    findings.push_back(finding);
  }
  return findings;
}

Findings check_cores() {
  int cpus = this_host().cpus;
  return {{Level::ok, "cores", fmt::format("{} usable by this process", cpus), ""}};
}

Findings check_memory() {
  double page = static_cast<double>(sysconf(_SC_PAGESIZE));
  double total = page * static_cast<double>(sysconf(_SC_PHYS_PAGES));
  double free = page * static_cast<double>(sysconf(_SC_AVPHYS_PAGES));
  return {{Level::ok, "memory", fmt::format("{}, {} of it unused", size_text(total), size_text(free)), ""}};
}

Finding limit(int resource, const char* what, const char* option, rlim_t wanted) {
  rlimit now = {};
  getrlimit(static_cast<__rlimit_resource_t>(resource), &now);
  auto text = [](rlim_t value) { return value == RLIM_INFINITY ? std::string("unlimited") : fmt::format("{}", value); };
  Finding finding{Level::ok, what, fmt::format("{} (at most {})", text(now.rlim_cur), text(now.rlim_max)), ""};
  if (now.rlim_max < wanted) {
    finding.level = Level::warn;
    finding.cure = fmt::format("many workers on one node need more: raise ulimit -H{} to {}", option, wanted);
  }
  return finding;
}

Findings check_limits() {
  constexpr rlim_t kFiles = 4096, kProcesses = 1024;
  return {limit(RLIMIT_NOFILE, "open files", "n", kFiles), limit(RLIMIT_NPROC, "processes", "u", kProcesses)};
}

Findings check_shared_memory() {
  constexpr double kLittle = 256 * kMiB;  // containers often have 64 MiB, too little for data loaders
  struct statvfs fs = {};
  if (statvfs("/dev/shm", &fs) != 0 || access("/dev/shm", W_OK) != 0)
    return {{Level::fail, "shared memory", "/dev/shm is missing or not writable", "mount -t tmpfs tmpfs /dev/shm"}};
  double total = static_cast<double>(fs.f_blocks) * static_cast<double>(fs.f_frsize);
  double free = static_cast<double>(fs.f_bavail) * static_cast<double>(fs.f_frsize);
  Finding finding{Level::ok, "shared memory", fmt::format("/dev/shm: {}, {} free", size_text(total), size_text(free)),
                  ""};
  if (free < kLittle) {
    finding.level = Level::warn;
    finding.cure = "workers exchange tensors there: in a container, start it with --shm-size=1g or --ipc=host";
  }
  return {finding};
}

// Bind, listen and connect, as workers and store do.
Findings check_loopback() {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  UniqueFd server(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  UniqueFd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  bool works = server && client && bind(server.get(), generic, size) == 0 && listen(server.get(), 1) == 0 &&
               getsockname(server.get(), generic, &size) == 0 && connect(client.get(), generic, size) == 0;
  if (works) return {{Level::ok, "loopback", "127.0.0.1 accepts connections", ""}};
  return {{Level::fail, "loopback", system_error("127.0.0.1", errno).message,
           "workers reach the agent's store there: ip link set lo up"}};
}

// <prefix>/lib/python3.X/site-packages/torch/version.py of a Python at <prefix>/bin; empty if there is none.
std::string torch_of(const std::string& python, const Host& host) {
  std::size_t bin = python.rfind("/bin/");
  std::string prefix = bin == std::string::npos ? "" : python.substr(0, bin);
  for (const char* lib : {"/lib", "/lib64", "/local/lib"})
    for (const std::string& name : host.list(prefix + lib)) {
      if (!name.starts_with("python3")) continue;
      for (const char* packages : {"/site-packages", "/dist-packages"}) {
        std::string folder = prefix + lib + "/" + name + packages + "/torch";
        if (host.probe(folder + "/version.py").kind == FileFacts::Kind::file) return folder;
      }
    }
  return "";
}

// The text between quotes in the line __version__ = '2.15.0+cpu'.
std::string torch_version(const std::string& text) {
  std::size_t line = text.find("__version__");
  std::size_t begin = line == std::string::npos ? line : text.find_first_of("'\"", line);
  if (begin == std::string::npos) return "unknown version";
  std::size_t end = text.find_first_of("'\"\n", begin + 1);
  return end == std::string::npos ? "unknown version" : text.substr(begin + 1, end - begin - 1);
}

Findings check_python() {
  Host host = this_host();
  auto python = find_python(host);
  if (!python)
    return {{Level::warn, "python", python.error().message, "only Python programs need it; compiled ones run without"}};
  Findings findings = {{Level::ok, "python", *python, ""}};
  if (python->find("/shims/") != std::string::npos) {
    findings.push_back({Level::ok, "torch", "not looked for: this python is a shim for another", ""});
    return findings;
  }
  std::string torch = torch_of(*python, host);
  if (torch.empty())
    findings.push_back({Level::warn, "torch", "not found beside " + *python,
                        "pip install torch, or activate the environment that has it"});
  else
    findings.push_back(
        {Level::ok, "torch", printable(torch_version(host.probe(torch + "/version.py").head)) + " in " + torch, ""});
  return findings;
}

Findings check_gpus() {
  Host host = this_host();
  GpuInventory inventory = host.gpus();
  std::vector<Finding> findings;
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
  findings.push_back({Level::ok, "GPUs", fmt::format("{} {}, {} usable by a worker", all, maker, usable), ""});
  if (usable == 0) {
    findings.back().level = Level::warn;
    findings.back().cure = "the environment hides them all: see CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES";
  }
  return findings;
}

Findings check_cgroups() {
  std::FILE* mounts = std::fopen("/proc/self/mountinfo", "re");
  std::string v1, v2;
  char line[4096];
  while (mounts != nullptr && std::fgets(line, sizeof line, mounts) != nullptr) {
    auto fields = split(line, ' ');
    if (fields.size() < 5) continue;
    std::string text(line);
    if (text.find(" - cgroup2 ") != std::string::npos) v2 = fields[4];
    if (text.find(" - cgroup ") != std::string::npos) v1 += (v1.empty() ? "" : ", ") + fields[4];
  }
  if (mounts != nullptr) std::fclose(mounts);
  if (!v2.empty()) return {{Level::ok, "cgroups", "v2 at " + v2 + (v1.empty() ? "" : ", v1 as well"), ""}};
  return {{Level::ok, "cgroups", v1.empty() ? "none mounted" : "v1 only: " + v1, ""}};
}

}  // namespace

std::vector<Check> all_checks() {
  return {check_containment, check_cores,  check_memory, check_limits, check_shared_memory,
          check_loopback,    check_python, check_gpus,   check_cgroups};
}

}  // namespace dtrain::cli
