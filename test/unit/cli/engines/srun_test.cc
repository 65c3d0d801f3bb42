// --engine slurm outside of a step.
#include "cli/engines/srun.h"

#include "test/support/catch.h"
#include "test/unit/cli/test_host.h"

using namespace dtrain;
using namespace dtrain::cli;
using Catch::Contains;
using Words = std::vector<std::string>;

namespace {

Host login() {
  FileMap files;
  files.emplace("/usr/bin/srun", executable_file());
  Host host = test_host(std::move(files));
  host.own_file = [] { return std::string("/opt/dtrain"); };
  return host;
}

Result<std::optional<Words>> srun(Words words, const Host& host = login(), CalledAs as = CalledAs::dtrain) {
  words.insert(words.end(), {"./train", "--lr=1"});
  const auto raw = parse(words, as);
  return srun_that_counts(*raw, Options(*raw, host), host);
}

std::string no_srun(Words words, const Host& host = login(), CalledAs as = CalledAs::dtrain) {
  const auto made = srun(std::move(words), host, as);
  return made ? "fine" : made.error().message;
}

}  // namespace

TEST_CASE("on a login host the engine slurm is srun with a dtrain on each node") {
  CHECK(**srun({"--engine", "slurm", "--nnodes", "4", "--nproc", "8", "-v", "--srun", "-p gpu  -t 60"}) ==
        Words{"srun", "--ntasks-per-node=1", "--mpi=none", "--nodes=4", "--wait=60", "--cpus-per-task=8", "-p", "gpu",
              "-t", "60", "/opt/dtrain", "run", "--engine=slurm", "--nproc=8", "--nnodes=4", "--verbose", "--",
              "./train", "--lr=1"});
  CHECK(**srun({"--engine", "slurm"}) == Words{"srun", "--ntasks-per-node=1", "--mpi=none", "--wait=60", "/opt/dtrain",
                                               "run", "--engine=slurm", "--", "./train", "--lr=1"});
  const Words elastic = **srun({"--engine", "slurm", "--nnodes", "2:4"});
  CHECK(Words(elastic.begin() + 3, elastic.begin() + 7) ==
        Words{"--nodes=2-4", "--no-kill", "--kill-on-bad-exit=0", "--wait=0"});
  const Words parts = **srun({"--engine", "slurm", "--nnodes", "2", "-np", "8"});
  CHECK(std::count(parts.begin(), parts.end(), "--cpus-per-task=4") == 1);
  CHECK(std::count(elastic.begin(), elastic.end(), "--wait=60") == 0);  // it goes on without a node that ends
  Host patient = login();
  patient.env["SLURM_WAIT"] = "0";
  const Words asked = **srun({"--engine", "slurm"}, patient);
  CHECK(std::count(asked.begin(), asked.end(), "--wait=60") == 0);
  const Words own = **srun({"--engine", "slurm", "--nproc", "2", "--srun=--cpus-per-task=16"});
  CHECK(std::count(own.begin(), own.end(), "--cpus-per-task=2") == 0);
}

TEST_CASE("the nodes of an allocation are asked by a step like that of the job") {
  const Words step = **srun({"--engine", "slurm", "--nnodes", "2", "--srun", "-p gpu -o out"});
  CHECK(srun_that_looks(step, login(), "/cache/k.tmp.j") ==
        Words{"/usr/bin/srun", "--ntasks-per-node=1", "--mpi=none", "--nodes=2", "--wait=60", "-p", "gpu", "-o", "out",
              "--output=all", "--error=all", "--time=1", "/opt/dtrain", "agent", "--look=/cache/k.tmp.j"});
  const Words terminal = srun_that_looks(**srun({"--engine", "slurm", "--srun=--pty"}), login(), "/cache/F");
  CHECK(std::count(terminal.begin(), terminal.end(), "--pty") == 0);
}

TEST_CASE("of an allocation's nodes a range gets all that it allows") {
  Host allocation = login();
  allocation.env["SLURM_JOB_NUM_NODES"] = "3";
  const auto nodes = [&](const char* typed) {
    const Words words = **srun({"--engine", "slurm", "--nnodes", typed}, allocation);
    CHECK(words[4] == "--no-kill");
    return words[3];
  };
  CHECK(nodes("1:4") == "--nodes=3");
  CHECK(nodes("1:2") == "--nodes=2");
  CHECK(nodes("3:4") == "--nodes=3");
  CHECK(nodes("4:5") == "--nodes=4");  // which srun refuses
}

TEST_CASE("in a step, and for other engines, srun is not needed") {
  CHECK_FALSE(srun({})->has_value());
  Host step = login();
  step.env.insert({{"SLURM_JOB_ID", "7"},
                   {"SLURM_STEP_ID", "0"},
                   {"SLURM_STEP_NUM_NODES", "1"},
                   {"SLURM_STEP_TASKS_PER_NODE", "1"},
                   {"SLURM_STEP_NODELIST", "n"},
                   {"SLURM_NODEID", "0"}});
  CHECK_FALSE(srun({"--engine", "slurm"}, step)->has_value());
}

TEST_CASE("srun that cannot be is told") {
  CHECK_THAT(no_srun({"--engine", "slurm"}, test_host()), Contains("srun is not in PATH"));
  CHECK_THAT(no_srun({"--engine", "slurm"}, login(), CalledAs::torchrun), Contains("needs the name dtrain"));
  CHECK_THAT(no_srun({"--srun", "-p gpu"}), Contains("--srun is for --engine slurm"));
  CHECK_THAT(no_srun({"--engine", "slurm", "--node-rank", "1"}), Contains("--node-rank is in conflict"));
  CHECK_THAT(no_srun({"--engine", "slurm", "--nnodes", "x"}), Contains("--nnodes 'x'"));
}
