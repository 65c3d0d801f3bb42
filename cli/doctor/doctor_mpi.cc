// `dtrain doctor`: the MPI launcher that has started it, if any.
#include <fmt/format.h>

#include "cli/doctor/doctor.h"
#include "cli/machine/host.h"

namespace dtrain::cli {

using Level = Finding::Level;

Findings judge_mpi(const launcher::MpiProcess& process, const Result<void>& library) {
  std::string place = process.launcher;
  if (process.knows_size)
    place += fmt::format(", process {} of {}, {} of {} on this host", process.rank, process.size, process.local_rank,
                         process.local_size);
  if (process.bound) place += "; it has chosen this process's CPUs, and `dtrain run` undoes that";
  if (!library) return {{Level::fail, "MPI", fmt::format("{}; {}", place, library.error().message), ""}};
  return {{Level::ok, "MPI", place + "; `dtrain run` makes its processes one job", ""}};
}

Findings check_mpi() {
  const Host host = this_host();
  auto process = launcher::mpi_process(host.env);
  if (!process) return {{Level::fail, "MPI", process.error().message, ""}};
  if (!*process) return {};
  const bool needs_library = (*process)->wire == launcher::MpiProcess::Wire::pmix;
  return judge_mpi(**process, needs_library ? find_pmix() : Result<void>());
}

}  // namespace dtrain::cli
