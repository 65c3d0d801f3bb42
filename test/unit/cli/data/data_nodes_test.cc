// Which nodes preprocess the data of a config's job.
#include "cli/data/data_nodes.h"

#include "test/support/catch.h"
#include "test/unit/cli/test_host.h"

using namespace dtrain;
using namespace dtrain::cli;
using NodeWords = std::vector<std::string>;

namespace {

NodeWords nodes_of(const std::string& text, const std::map<std::string, std::string>& env = {}) {
  FileMap files;
  files.emplace("/usr/bin/srun", executable_file());
  Host host = test_host(std::move(files));
  host.env.insert(env.begin(), env.end());
  host.read_text = [&](const std::string&) { return Result<std::string>(text); };
  RawOptions raw;
  raw[FlagId::config] = RawValue{"job.yaml", Origin::flag, "--config"};
  const auto words = nodes_of_config(raw, host);
  return words ? *words : NodeWords{"error", words.error().message};
}

}  // namespace

TEST_CASE("data nodes: one node has no words") {
  CHECK(nodes_of("{}").empty());
  CHECK(nodes_of("backend: {type: local, trainer: {num_workers: 4}}").empty());
  CHECK(nodes_of("hosts: ['a:8']").empty());
  CHECK(nodes_of("nnodes: 2").empty());  // each has a dtrain of its own
  CHECK(nodes_of("backend: {type: ray}\nnnodes: 1").empty());
}

TEST_CASE("data nodes: a process on each host of a list, as they are reached for the job") {
  CHECK(nodes_of("hosts: ['a:8', 'b:8']\nssh: ssh -p 22\nnproc: 8\nmax_restarts: 2") ==
        NodeWords{"--hosts=a,b", "--ssh=ssh -p 22", "--nproc=1"});
  CHECK(nodes_of("hosts: [a, b, c]\nnnodes: '2:3'") == NodeWords{"--hosts=a,b,c", "--nnodes=2:3", "--nproc=1"});
  CHECK(nodes_of("hosts: ['n[1-4]:8', '[fe80::1]:8']\nexclude: n2\nnnodes: 3") ==
        NodeWords{"--hosts=n1,n3,n4", "--nproc=1"});
  CHECK(nodes_of("hosts: [a, '[fe80::1]:8']") == NodeWords{"--hosts=a,[fe80::1]", "--nproc=1"});
  CHECK(nodes_of("hosts: ['me@fe80::1', 'me@[fe80::2]:8']") ==
        NodeWords{"--hosts=me@[fe80::1],me@[fe80::2]", "--nproc=1"});
}

TEST_CASE("data nodes: on a cluster one on each node, or on as many as the job has") {
  CHECK(nodes_of("backend: {type: ray, trainer: {num_workers: 8}}") == NodeWords{"--engine=ray", "--num-proc=auto"});
  CHECK(nodes_of("backend: {type: ray}") == NodeWords{"--engine=ray", "--num-proc=auto"});
  CHECK(nodes_of("backend: {type: ray}\nnnodes: 3") == NodeWords{"--engine=ray", "--nnodes=3", "--nproc=1"});
}

TEST_CASE("data nodes: those of SLURM count in an allocation, with all CPUs that they have there") {
  const std::string job = "backend: {type: slurm}";
  CHECK(nodes_of(job).empty());
  CHECK(nodes_of(job, {{"SLURM_JOB_NUM_NODES", "1"}}).empty());
  std::map<std::string, std::string> env = {{"SLURM_JOB_NUM_NODES", "3"}, {"SLURM_JOB_ID", "7"}};
  CHECK(nodes_of(job, env) == NodeWords{"--engine=slurm", "--nnodes=3", "--nproc=1"});
  env["SLURM_JOB_CPUS_PER_NODE"] = "8(x3)";
  env["SLURM_CPUS_PER_TASK"] = "2";  // of sbatch's tasks
  CHECK(nodes_of(job, env) == NodeWords{"--engine=slurm", "--srun=--cpus-per-task=8", "--nnodes=3", "--nproc=1"});
  CHECK(nodes_of(job + "\nsrun: -c 2\nnnodes: 2", env) ==
        NodeWords{"--engine=slurm", "--srun=-c 2", "--nnodes=2", "--nproc=1"});
  CHECK(nodes_of(job + "\nsrun: --constraint=x-c", env) ==
        NodeWords{"--engine=slurm", "--srun=--constraint=x-c --cpus-per-task=8", "--nnodes=3", "--nproc=1"});
  CHECK(nodes_of(job + "\nnnodes: 1:4", env) ==
        NodeWords{"--engine=slurm", "--srun=--cpus-per-task=8", "--nnodes=3", "--nproc=1"});
  CHECK(nodes_of(job + "\nnnodes: +2", env) ==
        NodeWords{"--engine=slurm", "--srun=--cpus-per-task=8", "--nnodes=2", "--nproc=1"});
  CHECK(nodes_of(job + "\nnnodes: 1", env).empty());
  env["SLURM_JOB_CPUS_PER_NODE"] = "8(x2),4";
  CHECK(nodes_of(job, env) == NodeWords{"--engine=slurm", "--srun=--cpus-per-task=4", "--nnodes=3", "--nproc=1"});
  env["SRUN_CPUS_PER_TASK"] = "4";
  CHECK(nodes_of(job, env) == NodeWords{"--engine=slurm", "--nnodes=3", "--nproc=1"});
}

TEST_CASE("data nodes: srun's own words may say how many there are, and then nobody knows here") {
  const std::string job = "backend: {type: slurm}\nsrun: ";
  const std::map<std::string, std::string> env = {{"SLURM_JOB_NUM_NODES", "3"}, {"SLURM_JOB_ID", "7"}};
  for (const char* words : {"-N 2 -c 2", "-N2 -c2", "-c 2 --nodes=2", "-c 2 -n 2", "-c2 -n2", "-c 2 --ntasks=2"})
    CHECK(nodes_of(job + words, env) == NodeWords{"--engine=slurm", std::string("--srun=") + words, "--nproc=1"});
  CHECK(nodes_of(job + "-c 2 -N 2\nnnodes: 1:5", env) == NodeWords{"--engine=slurm", "--srun=-c 2 -N 2", "--nproc=1"});
  CHECK(nodes_of(job + "-c 2 --ntasks-per-core=1", env).at(2) == "--nnodes=3");
}
