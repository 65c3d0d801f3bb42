#pragma once
// What the variables of an MPI launcher (mpirun, mpiexec, prterun) say about the process that it has started. Pure.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/engines/variables.h"
#include "rendezvous/base/result.h"
#include "rendezvous/net/connect.h"

namespace dtrain::launcher {

struct MpiProcess {
  // How it and the others can tell each other something: rendezvous/pmi.
  enum class Wire { pmix, pmi1 } wire = Wire::pmix;
  std::string launcher{};              // for people: "mpirun (Open MPI)"
  std::string origin{};                // the variable that says so
  int size = 1, rank = 0;              // of all processes that it has started
  int local_size = 1, local_rank = 0;  // of those on this host
  bool knows_size = true;              // false: PRRTE's variables say nothing of the four
  // To some CPUs, by the launcher's own choice: nobody has typed a binding. PRRTE says that when processes meet.
  bool bound = false;
  double kill_after = 0;                   // seconds from the launcher's SIGTERM to its SIGKILL; 0: it does not say
  std::vector<NetworkPlace> listens_at{};  // the launcher itself; empty: it does not say
};

// Nothing: no MPI launcher has started this process, or it is a worker of dtrain's. Where SLURM's srun has started it
// with a PMI, the job is a step of SLURM (slurm_plan.h). Error: the variables contradict each other.
Result<std::optional<MpiProcess>> mpi_process(const Variables& env);

// The launcher's variables, which say to a worker what is true of the agent: programs take them for their own rank.
// Whether this is one of them.
bool is_mpi_variable(const std::string& name);

// What is known of a process above this one, by its name in /proc/PID/comm: the launcher itself, or its daemon; a
// shell, or another program that runs one command in its own place (env, timeout, apptainer); or a program, which may
// use MPI itself.
enum class Above { launcher, wrapper, program };
Above above(std::string_view name);

}  // namespace dtrain::launcher
