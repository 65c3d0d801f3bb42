// What MPI's launchers set; the tables are what Open MPI 4.1.4, MPICH 4.0.2 and SLURM 22.05 do.
#include "launcher/engines/mpi_plan.h"

#include <fmt/format.h>

#include <string>

#include "test/support/catch.h"

using namespace dtrain::launcher;
using Catch::Contains;

namespace {

Variables by_open_mpi() {
  return {{"OMPI_COMM_WORLD_RANK", "3"},          {"OMPI_COMM_WORLD_SIZE", "4"},
          {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},    {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
          {"OMPI_MCA_orte_bound_at_launch", "1"}, {"PMIX_RANK", "3"},
          {"PMIX_NAMESPACE", "1978531841"}};
}

Variables by_hydra() {
  return {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"PMI_FD", "6"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "2"}};
}

}  // namespace

TEST_CASE("mpirun and mpiexec say which of their processes this is") {
  const auto open_mpi = *mpi_process(by_open_mpi());
  REQUIRE(open_mpi);
  CHECK(open_mpi->wire == MpiProcess::Wire::pmix);
  CHECK((open_mpi->rank == 3 && open_mpi->size == 4 && open_mpi->local_rank == 1 && open_mpi->local_size == 2));
  CHECK(open_mpi->bound);
  CHECK(open_mpi->origin == "OMPI_COMM_WORLD_RANK");
  const auto hydra = *mpi_process(by_hydra());
  REQUIRE(hydra);
  CHECK(hydra->wire == MpiProcess::Wire::pmi1);
  CHECK((hydra->rank == 0 && hydra->size == 2 && hydra->local_size == 2));
  CHECK_FALSE(hydra->bound);
  const auto prte = *mpi_process({{"PMIX_RANK", "0"}, {"PMIX_NAMESPACE", "prterun-1"}});
  REQUIRE(prte);
  CHECK_FALSE(prte->knows_size);
}

TEST_CASE("CPUs that the user has chosen for mpirun are no choice of its own") {
  Variables env = by_open_mpi();
  env["OMPI_MCA_hwloc_base_binding_policy"] = "core";
  CHECK_FALSE((*mpi_process(env))->bound);
  env = by_open_mpi();
  env.erase("OMPI_MCA_orte_bound_at_launch");
  CHECK_FALSE((*mpi_process(env))->bound);
  for (const auto& [name, value] : Variables{{"OMPI_MCA_hwloc_base_cpu_list", "0"},
                                             {"OMPI_MCA_orte_rankfile", "ranks"},
                                             {"OMPI_MCA_rmaps_base_mapping_policy", "slot:PE=1"}}) {
    env = by_open_mpi();
    env[name] = value;
    CHECK_FALSE((*mpi_process(env))->bound);
  }
  env = by_open_mpi();
  env["OMPI_MCA_rmaps_base_mapping_policy"] = "ppr:1:node";
  CHECK((*mpi_process(env))->bound);
}

TEST_CASE("a worker is no process of MPI's, and neither is a task of srun's") {
  Variables worker = by_open_mpi();
  worker["TORCHELASTIC_RUN_ID"] = "x";
  CHECK_FALSE(*mpi_process(worker));
  CHECK_FALSE(*mpi_process({}));
  // srun --mpi=pmi2, and --mpi=pmix: SLURM's own variables say more.
  CHECK_FALSE(*mpi_process({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"PMI_FD", "9"}, {"SLURM_STEP_ID", "0"}}));
  CHECK_FALSE(*mpi_process({{"PMIX_RANK", "0"}, {"PMIX_NAMESPACE", "slurm.pmix.7.0"}, {"SLURM_STEP_ID", "0"}}));
  // Open MPI in an allocation starts its daemons with srun: the last one counts.
  Variables inner = by_open_mpi();
  inner["SLURM_STEP_ID"] = "0";
  CHECK(*mpi_process(inner));
}

TEST_CASE("variables of MPI that contradict each other are an error") {
  for (const auto& [name, value] : Variables{{"OMPI_COMM_WORLD_RANK", "4"},
                                             {"OMPI_COMM_WORLD_SIZE", "x"},
                                             {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
                                             {"OMPI_COMM_WORLD_LOCAL_SIZE", "5"},
                                             {"OMPI_COMM_WORLD_LOCAL_RANK", "-1"}}) {
    Variables env = by_open_mpi();
    env[name] = value;
    const auto process = mpi_process(env);
    REQUIRE_FALSE(process.ok());
    CHECK_THAT(process.error().message, Contains("contradict each other; to ignore MPI use --standalone"));
  }
}

TEST_CASE("workers do not get the launcher's variables, and keep the user's settings") {
  for (const char* name :
       {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMI_FD", "PMIX_NAMESPACE", "MPI_LOCALRANKID", "HYDI_CONTROL_FD",
        "OMPI_MCA_orte_hnp_uri", "OMPI_MCA_ess_base_vpid", "OMPI_WORLD_SIZE", "OMPI_MCA_num_procs", "PRTE_LAUNCHED"})
    CHECK(is_mpi_variable(name));
  for (const char* name : {"OMPI_MCA_btl", "OMPI_ALLOW_RUN_AS_ROOT", "OMPI_CC", "PMIX_MCA_gds", "OMP_NUM_THREADS",
                           "PATH", "I_MPI_FABRICS", "MPI_HOME", "PRTE_MCA_prte_tmpdir_base"})
    CHECK_FALSE(is_mpi_variable(name));
}

TEST_CASE("the time that Open MPI gives a process is known") {
  CHECK((*mpi_process(by_open_mpi()))->kill_after == 1);
  Variables env = by_open_mpi();
  env["OMPI_MCA_odls_base_sigkill_timeout"] = "30";
  CHECK((*mpi_process(env))->kill_after == 30);
  CHECK((*mpi_process(by_hydra()))->kill_after == 0);
  env["PRTE_LAUNCHED"] = "1";  // Open MPI 5
  CHECK((*mpi_process(env))->kill_after == 0.25);
  CHECK((*mpi_process({{"PMIX_RANK", "0"}, {"PMIX_NAMESPACE", "prterun-a@1"}, {"PRTE_LAUNCHED", "1"}}))->kill_after ==
        0.25);
}

TEST_CASE("Open MPI 4 tells where mpirun listens") {
  const auto said = [](const char* text) {
    Variables env = by_open_mpi();
    env["OMPI_MCA_orte_hnp_uri"] = text;
    const MpiProcess process = **mpi_process(env);
    std::string places;
    for (const auto& place : process.listens_at) places += fmt::format("{} {}, ", place.address, place.port);
    return places;
  };
  CHECK(said("1491795968.0;tcp://192.0.2.2,10.0.0.2:48749;tcp6://[fd00::2,fd01::2]:38133") ==
        "192.0.2.2 48749, 10.0.0.2 48749, fd00::2 38133, fd01::2 38133, ");
  CHECK(said("1.0;tcp://192.0.2.2:80") == "192.0.2.2 80, ");
  for (const char* text : {"", "1.0", "1.0;tcp://", "1.0;tcp://192.0.2.2", "1.0;tcp://192.0.2.2:", "1.0;tcp://:0",
                           "1.0;tcp://192.0.2.2:65536", "1.0;tcp://,:9", "://", "ib://x"})
    CHECK(said(text).empty());
  CHECK((*mpi_process(by_hydra()))->listens_at.empty());
}

TEST_CASE("a shell between the launcher and this process is a wrapper, and Python a program") {
  for (const char* name : {"mpirun", "orted", "hydra_pmi_proxy", "prted"}) CHECK(above(name) == Above::launcher);
  for (const char* name : {"sh", "bash", "timeout", "starter-suid"}) CHECK(above(name) == Above::wrapper);
  for (const char* name : {"python3", "dtrain", "a.out", ""}) CHECK(above(name) == Above::program);
}
