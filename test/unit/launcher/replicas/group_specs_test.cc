#include "launcher/replicas/group_specs.h"

#include <map>
#include <string>

#include "launcher/job/worker_env.h"
#include "test/support/catch.h"

using namespace dtrain::launcher;

namespace {

JobSpec node_of_groups(int groups, int workers) {
  JobSpec node;
  node.run_id = "exp";
  node.nproc_per_node = workers;
  node.replicas.groups = node.replicas.here = groups;
  return node;
}

std::map<std::string, std::string> env_of_worker(const JobSpec& spec, int local_rank) {
  std::map<std::string, std::string> env;
  for (const auto& [name, value] : worker_env(spec, {}, local_rank, {})) env[name] = value;
  return env;
}

}  // namespace

TEST_CASE("a job without groups has no specs of groups") { CHECK(group_specs(JobSpec()).empty()); }

TEST_CASE("each group is a job with a name of its own, and its workers know their group") {
  const auto specs = group_specs(node_of_groups(2, 3));
  REQUIRE(specs.size() == 2);
  CHECK(specs[0].run_id == "exp-g0");
  CHECK(specs[1].run_id == "exp-g1");
  CHECK(specs[1].nproc_per_node == 3);
  CHECK(specs[1].replicas.group() == 1);
  CHECK(specs[1].lead == "group 1: ");
  CHECK(specs[1].console.group == "g1:");
  auto env = env_of_worker(specs[1], 2);
  CHECK(env["REPLICA_GROUP_ID"] == "1");
  CHECK(env["NUM_REPLICA_GROUPS"] == "2");
  CHECK(env["TORCHELASTIC_RUN_ID"] == "exp-g1");
  CHECK(env["RANK"] == "2");
  CHECK_FALSE(env.contains("CUDA_VISIBLE_DEVICES"));
}

TEST_CASE("each group has its own files of kept state") {
  JobSpec node = node_of_groups(2, 1);
  node.state_files.emplace().key = "cluster.7";
  CHECK(group_specs(node)[1].state_files->key == "cluster.7.g1");
}

TEST_CASE("groups are numbered over all nodes, and what a node has is divided among its own") {
  JobSpec node = node_of_groups(4, 1);
  node.replicas.here = 2;
  node.replicas.first = 2;
  node.nodes.port = 29600;
  node.cpus = {{0}, {1}};
  const auto specs = group_specs(node);
  REQUIRE(specs.size() == 2);
  CHECK(specs[0].run_id == "exp-g2");
  CHECK(specs[1].replicas.group() == 3);
  CHECK(specs[1].cpus == std::vector<CpuSet>{{1}});
  CHECK(specs[1].nodes.port == 29601);
  auto env = env_of_worker(specs[1], 0);
  CHECK(env["REPLICA_GROUP_ID"] == "3");
  CHECK(env["NUM_REPLICA_GROUPS"] == "4");
}

TEST_CASE("what the workers of a node have is divided among its groups") {
  JobSpec node = node_of_groups(2, 2);
  for (int cpu = 0; cpu < 4; ++cpu) {
    CpuSet set;
    set.push_back(cpu);
    node.cpus.push_back(set);
    node.own_devices.by_local_rank.push_back("GPU-" + std::to_string(cpu));
  }
  const auto specs = group_specs(node);
  CHECK(specs[1].cpus == std::vector<CpuSet>{node.cpus[2], node.cpus[3]});
  CHECK(specs[0].own_devices.by_local_rank == std::vector<std::string>{"GPU-0", "GPU-1"});
  CHECK(specs[1].own_devices.by_local_rank == std::vector<std::string>{"GPU-2", "GPU-3"});
  node.own_devices.by_local_rank.clear();
  node.replicas.devices = {"0,1", "2,3"};
  CHECK(env_of_worker(group_specs(node)[1], 0)["CUDA_VISIBLE_DEVICES"] == "2,3");
  node.replicas.hip = true;
  CHECK(env_of_worker(group_specs(node)[1], 0)["HIP_VISIBLE_DEVICES"] == "2,3");
}

TEST_CASE("ports and report files are each group's own") {
  JobSpec node = node_of_groups(2, 1);
  CHECK(group_specs(node)[1].nodes.port == 0);
  CHECK(group_specs(node)[1].report_path.empty());
  node.nodes.port = 29600;
  node.report_path = "a.b/report.json";
  const auto specs = group_specs(node);
  CHECK(specs[0].nodes.port == 29600);
  CHECK(specs[1].nodes.port == 29601);
  CHECK(specs[0].report_path == "a.b/report.g0.json");
  node.report_path = "a.b/.report";
  CHECK(group_specs(node)[1].report_path == "a.b/.report.g1");
}
