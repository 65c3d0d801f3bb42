// Reads and judges the variables of MPI's launchers.
#include "launcher/engines/mpi_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace dtrain::launcher {
namespace {

struct Names {
  MpiProcess::Wire wire;
  const char* launcher;
  const char *rank, *size, *local_rank, *local_size;
};

// The last that was started is the first here: Open MPI in an allocation of SLURM starts its daemons with srun.
constexpr Names kLaunchers[] = {
    {MpiProcess::Wire::pmix, "mpirun (Open MPI)", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    // MPICH's and Intel MPI's. SLURM's own PMI has no MPI_LOCALRANKID.
    {MpiProcess::Wire::pmi1, "mpiexec (Hydra)", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
};

constexpr std::string_view kPrefixes[] = {
    "OMPI_COMM_WORLD_", "OMPI_MCA_orte_", "OMPI_MCA_ess", "OMPI_WORLD_", "PMIX_", "PMI_", "HYDI_", "HYDRA_"};
constexpr std::string_view kWhole[] = {
    "MPI_LOCALRANKID",    "MPI_LOCALNRANKS",  "OMPI_APP_CTX_NUM_PROCS", "OMPI_ARGV",          "OMPI_COMMAND",
    "OMPI_FILE_LOCATION", "OMPI_FIRST_RANKS", "OMPI_NUM_APP_CTX",       "OMPI_UNIVERSE_SIZE", "OMPI_LIBDIR_LOC",
    "OMPI_TOOL_NAME",     "OMPI_VERSION",     "OMPI_MCA_PREFIXES",      "OMPI_MCA_cpu_type",  "OMPI_MCA_initial_wdir",
    "OMPI_MCA_num_procs", "PRTE_LAUNCHED",    "PRTE_SHARED_FS"};
// Settings of the user's for programs that use PMIx.
constexpr std::string_view kSettings = "PMIX_MCA_";
constexpr std::uint32_t kOpenMpiKillsAfter = 1;  // odls_base_sigkill_timeout
constexpr double kPrrteKillsAfter = 0.25;        // no setting changes it
constexpr std::uint32_t kMostProcesses = 1 << 24;

// Which CPUs a process gets, in one of Open MPI's ways to say so.
bool has_typed_binding(const Variables& env) {
  for (const char* name :
       {"OMPI_MCA_hwloc_base_binding_policy", "OMPI_MCA_hwloc_base_cpu_list", "OMPI_MCA_hwloc_base_cpu_set",
        "OMPI_MCA_hwloc_base_slot_list", "OMPI_MCA_orte_rankfile", "OMPI_MCA_rmaps_rank_file_path"})
    if (env.contains(name)) return true;
  std::string mapping = variable(env, "OMPI_MCA_rmaps_base_mapping_policy");
  for (char& c : mapping)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  return mapping.find("pe=") != std::string::npos || mapping.find("rankfile") != std::string::npos;
}

double kill_after(const Variables& env) {
  if (env.contains("PRTE_LAUNCHED")) return kPrrteKillsAfter;  // Open MPI 5 too
  return number(env, "OMPI_MCA_odls_base_sigkill_timeout").value_or(kOpenMpiKillsAfter);
}

// Open MPI 4: "1491795968.0;tcp://192.0.2.2,10.0.0.2:48749;tcp6://[fd00::2]:38133". Of what looks otherwise, nothing.
std::vector<NetworkPlace> listens_at(const Variables& env) {
  std::vector<NetworkPlace> places;
  const std::string text = variable(env, "OMPI_MCA_orte_hnp_uri");
  for (std::size_t at = text.find("://"); at != std::string::npos; at = text.find("://", at)) {
    at += 3;
    const std::string part = text.substr(at, text.find(';', at) - at);
    const auto colon = part.rfind(':');
    if (colon == std::string::npos) continue;
    const auto port = number(part.substr(colon + 1));
    if (!port || *port == 0 || *port > 65535) continue;
    std::string address;
    for (const char c : part.substr(0, colon) + ',') {
      if (c != ',' && c != '[' && c != ']') address += c;
      if (c != ',' || address.empty()) continue;
      places.push_back({std::exchange(address, {}), static_cast<std::uint16_t>(*port)});
    }
  }
  return places;
}

}  // namespace

Result<std::optional<MpiProcess>> mpi_process(const Variables& env) {
  if (env.contains("TORCHELASTIC_RUN_ID")) return {std::nullopt};
  for (const Names& each : kLaunchers) {
    if (!env.contains(each.rank) || !env.contains(each.local_rank)) continue;
    const auto rank = number(env, each.rank), size = number(env, each.size), local_rank = number(env, each.local_rank),
               local_size = number(env, each.local_size);
    if (!rank || !size || !local_rank || !local_size || *rank >= *size || *local_rank >= *local_size ||
        *local_size > *size || *size > kMostProcesses)
      return Error{ErrorKind::usage,
                   fmt::format("{}, {}, {} and {} contradict each other; to ignore MPI use --standalone, or say where "
                               "the nodes meet with --nnodes, --node-rank and --rdzv-endpoint",
                               each.rank, each.size, each.local_rank, each.local_size)};
    MpiProcess process{.wire = each.wire,
                       .launcher = each.launcher,
                       .origin = each.rank,
                       .size = static_cast<int>(*size),
                       .rank = static_cast<int>(*rank),
                       .local_size = static_cast<int>(*local_size),
                       .local_rank = static_cast<int>(*local_rank)};
    process.bound = env.contains("OMPI_MCA_orte_bound_at_launch") && !has_typed_binding(env);
    if (each.wire == MpiProcess::Wire::pmix) process.kill_after = kill_after(env);
    process.listens_at = listens_at(env);
    return {process};
  }
  // PRRTE's own prterun. srun --mpi=pmix sets them too, in a step.
  if (env.contains("PMIX_RANK") && env.contains("PMIX_NAMESPACE") &&
      !variable(env, "PMIX_NAMESPACE").starts_with("slurm.pmix"))
    return {
        MpiProcess{.launcher = "prterun", .origin = "PMIX_RANK", .knows_size = false, .kill_after = kill_after(env)}};
  return {std::nullopt};
}

Above above(std::string_view name) {
  // The kernel keeps 15 letters.
  constexpr std::string_view kDaemons[] = {"mpirun",          "mpirun.openmpi", "mpiexec", "mpiexec.openmpi",
                                           "orterun",         "orted",          "prterun", "prted",
                                           "hydra_pmi_proxy", "mpiexec.hydra",  "prte"};
  constexpr std::string_view kWrappers[] = {
      "sh",     "bash",      "dash",        "zsh",     "ksh",      "csh",          "tcsh",   "fish",   "busybox",
      "env",    "time",      "timeout",     "nice",    "stdbuf",   "strace",       "sudo",   "su",     "perf",
      "setsid", "apptainer", "singularity", "appinit", "starter",  "starter-suid", "sinit",  "enroot", "tini",
      "conmon", "dumb-init", "catchsegv",   "gdb",     "valgrind", "numactl",      "taskset"};
  if (std::find(std::begin(kDaemons), std::end(kDaemons), name) != std::end(kDaemons)) return Above::launcher;
  const bool wraps = std::find(std::begin(kWrappers), std::end(kWrappers), name) != std::end(kWrappers);
  return wraps ? Above::wrapper : Above::program;
}

bool is_mpi_variable(const std::string& name) {
  if (name.starts_with(kSettings)) return false;
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes), [&](auto each) { return name.starts_with(each); }) ||
         std::find(std::begin(kWhole), std::end(kWhole), name) != std::end(kWhole);
}

}  // namespace dtrain::launcher
