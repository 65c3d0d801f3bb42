#pragma once
// `dtrain doctor`: what this machine can do for a job. Checks give findings; one place prints them and decides the
// exit code, so a new check is one function in a list.
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "cli/base/layout.h"
#include "cli/machine/host.h"
#include "cli/program/python_facts.h"
#include "launcher/engines/mpi_plan.h"
#include "rendezvous/base/result.h"

namespace dtrain::cli {

struct Finding {
  // retry: a job cannot run here now, and may later.
  enum class Level { ok, warn, retry, fail } level = Level::ok;
  std::string what;    // "shared memory"
  std::string detail;  // "/dev/shm, 64 MiB free"
  std::string cure;    // what to do about it; empty for ok
};
using Findings = std::vector<Finding>;

// May ask the system, and leaves nothing behind.
struct Check {
  const char* what;
  Findings (*run)();
};

// The checks of `dtrain doctor`, in the order of the report.
std::vector<Check> all_checks();

// Run them all; each in a process of its own, which is killed if it does not end within 30 seconds. Forks: call with
// one thread.
Findings examine(const std::vector<Check>& checks, int patience_ms = 30000);

// The report as text; no line is longer than `width` unless a single word is. `colors`: of ok, warn and FAIL. Pure.
std::string report(const Findings& findings, std::size_t width = kWidest, bool colors = false);
// 0, or 1 if something that a job needs is missing, or not there yet. Pure.
int verdict(const Findings& findings);
// For an init container of a pod (--preflight): 0 if all is well, 10 with a warning, 20 if a job may run here later, 30
// if it cannot. Pure.
int preflight_verdict(const Findings& findings);

// `dtrain doctor [--preflight]`: prints the report. Returns the exit code.
int doctor_command(const std::vector<std::string>& words);

// Python and torch, judged for a machine with this many usable GPUs. Pure.
Findings judge_python(const PythonFacts& facts, int gpus);

// `step`: where this process is in a step, empty for an allocation; `token`: where the user has one for it, empty if
// nowhere; `munge`: whether it works. Pure.
Findings judge_slurm(const std::map<std::string, std::string>& env, const std::string& step, const std::string& token,
                     const Result<void>& munge);

// Of a machine with these variables. Pure but for a file with hosts.
Findings judge_engine(const Host& host);

struct PortUse {
  bool is_free = true;
  std::string holder = {};  // "python3 (1234)"
};
// Whether a server could have this port on all addresses, as a store has it. Port 0 is always free.
PortUse port_use(int port);

// Of the place that variables name for the nodes of a job; none if they name none. Pure but for the name service.
Findings judge_meeting(const Host& host, const std::function<PortUse(int port)>& use_of);

// `library`: whether PMIx's can be loaded. Pure.
Findings judge_mpi(const launcher::MpiProcess& process, const Result<void>& library);

// The parts of all_checks(), one file each.
Findings check_containment();
Findings check_cgroups();
Findings check_cores();
Findings check_memory();
Findings check_limits();
Findings check_shared_memory();
Findings check_core_dumps();
Findings check_clock();
Findings check_loopback();
Findings check_owners();  // of connections
Findings check_ports();
Findings check_meeting();  // none if no variable names the place
Findings check_gpus();
Findings check_engine();
Findings check_slurm();  // none outside SLURM
Findings check_mpi();    // none where no MPI launcher has started this process
Findings check_python();
Findings check_build_locks();  // none if no build was killed

}  // namespace dtrain::cli
