// `dtrain doctor`: containment, and what the machine has of cores, memory and limits.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>

#include "cli/base/text.h"
#include "cli/doctor/doctor.h"
#include "cli/machine/host.h"
#include "cli/machine/machine_facts.h"
#include "launcher/base/small_file.h"
#include "launcher/guard/doctor_probe.h"
#include "launcher/process/containment.h"

namespace dtrain::cli {
namespace {

using Level = Finding::Level;

std::string limit_text(rlim_t value) {
  return value == RLIM_INFINITY ? std::string("unlimited") : fmt::format("{}", value);
}

Finding limit(int resource, const char* what, const char* option, rlim_t wanted) {
  rlimit now = {};
  getrlimit(static_cast<__rlimit_resource_t>(resource), &now);
  Finding finding{Level::ok, what, fmt::format("{} (at most {})", limit_text(now.rlim_cur), limit_text(now.rlim_max)),
                  ""};
  if (now.rlim_max < wanted) {
    finding.level = Level::warn;
    finding.cure = fmt::format("many workers on one node need more: raise ulimit -H{} to {}", option, wanted);
  }
  return finding;
}

}  // namespace

// subreaper is what every job can fall back on; the others are stronger, and a matter of the machine's set-up.
Findings check_containment() {
  Findings findings;
  for (const launcher::ContainmentProof& proof : launcher::prove_containment()) {
    Finding finding{Level::ok, fmt::format("contain={}", launcher::to_string(proof.level)), proof.detail, ""};
    if (!proof.holds && proof.level == launcher::Containment::subreaper) {
      finding.level = Level::fail;
      finding.cure = "dtrain cannot hold jobs together here: allow it to use fork, prctl and signals";
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

Findings check_cgroups() {
  CgroupLimits limits = cgroup_limits();
  if (limits.folder.empty()) return {{Level::ok, "cgroup", "no cgroup v2 here", ""}};
  const char* rights = access(limits.folder.c_str(), W_OK) == 0 ? "writable" : "not writable by this user";
  return {{Level::ok, "cgroup", fmt::format("v2, {}, {}", limits.folder, rights), ""}};
}

Findings check_cores() {
  int cpus = this_host().cpus;
  CgroupLimits limits = cgroup_limits();
  Finding finding{Level::ok, "cores", fmt::format("{} usable by this process", cpus), ""};
  if (limits.cores && *limits.cores < cpus) {
    int whole = std::max(1, static_cast<int>(*limits.cores));
    finding.level = Level::warn;
    finding.detail += fmt::format(", but its cgroup may use {:g} of them at a time", *limits.cores);
    finding.cure = fmt::format("--nproc cpu and OMP_NUM_THREADS count cores, not this limit: use --nproc {}", whole);
  }
  return {finding};
}

Findings check_memory() {
  double page = static_cast<double>(sysconf(_SC_PAGESIZE));
  double total = page * static_cast<double>(sysconf(_SC_PHYS_PAGES));
  double free = page * static_cast<double>(sysconf(_SC_AVPHYS_PAGES));
  std::string text = fmt::format("{}, {} of it unused", size_text(total), size_text(free));
  CgroupLimits limits = cgroup_limits();
  if (limits.bytes && *limits.bytes < total) text += fmt::format("; its cgroup may use {}", size_text(*limits.bytes));
  return {{Level::ok, "memory", text, ""}};
}

Findings check_limits() {
  constexpr rlim_t kFiles = 4096, kProcesses = 1024;
  return {limit(RLIMIT_NOFILE, "open files", "n", kFiles), limit(RLIMIT_NPROC, "processes", "u", kProcesses)};
}

Findings check_shared_memory() {
  constexpr double kLittle = 256.0 * 1024 * 1024;  // containers often have 64 MiB, too little for data loaders
  struct statvfs fs = {};
  if (statvfs("/dev/shm", &fs) != 0 || access("/dev/shm", W_OK) != 0)
    return {{Level::fail, "shared memory", "/dev/shm is missing or not writable", "mount -t tmpfs tmpfs /dev/shm"}};
  double total = static_cast<double>(fs.f_blocks) * static_cast<double>(fs.f_frsize);
  double free = static_cast<double>(fs.f_bavail) * static_cast<double>(fs.f_frsize);
  Finding finding{Level::ok, "shared memory", fmt::format("/dev/shm: {}, {} free", size_text(total), size_text(free)),
                  ""};
  if (free < kLittle) {
    finding.level = Level::warn;
    finding.cure = "workers exchange tensors there: start a container with --shm-size=1g or --ipc=host";
  }
  return {finding};
}

// Off is usual; who looks for a core file after a crash should find out here why there is none.
Findings check_core_dumps() {
  rlimit now = {};
  getrlimit(RLIMIT_CORE, &now);
  std::string pattern = launcher::read_small_file("/proc/sys/kernel/core_pattern");
  pattern = printable(pattern.substr(0, pattern.find('\n')));
  bool piped = pattern.starts_with('|');
  if (now.rlim_cur == 0 && !piped)
    return {{Level::ok, "core dumps", "none (ulimit -c is 0; `ulimit -c unlimited` allows them)", ""}};
  return {{Level::ok, "core dumps", fmt::format("at most {} bytes, to {}", limit_text(now.rlim_cur), pattern), ""}};
}

// Certificates and the times in logs depend on it.
Findings check_clock() {
  constexpr std::time_t k2024 = 1704067200;
  std::time_t now = std::time(nullptr);
  std::tm utc = {};
  gmtime_r(&now, &utc);
  char text[40];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &utc);
  if (now < k2024) return {{Level::warn, "clock", text, "it is wrong: set it, or start a time service"}};
  return {{Level::ok, "clock", text, ""}};
}

}  // namespace dtrain::cli
