// --replica-groups: how the workers of a node are divided, and what cannot be had with it.
#include <algorithm>
#include <map>

#include "cli/resolve/resolve.h"
#include "test/support/catch.h"
#include "test/unit/cli/resolve/plan_of_flags.h"
#include "test/unit/cli/test_host.h"

using namespace dtrain;
using namespace dtrain::cli;
using Words = std::vector<std::string>;

namespace {

Host host_of_gpus(int gpus, const std::map<std::string, std::string>& env = {},
                  GpuInventory::Maker maker = GpuInventory::Maker::nvidia) {
  Host host = test_host();
  for (const auto& [name, value] : env) host.env[name] = value;
  host.gpus = host.listed_gpus = [gpus, maker] {
    GpuInventory inventory;
    inventory.maker = maker;
    for (int i = 0; i < gpus; ++i) inventory.gpus.push_back({"GPU-" + std::to_string(i), ""});
    return inventory;
  };
  return host;
}

Plan plan_of_groups(const Words& flags, const Host& host = host_of_gpus(0)) { return plan_of_flags(flags, host); }

std::string group_error(const Words& flags, const Host& host = host_of_gpus(0)) {
  auto answer = plan_or_error(flags, host);
  if (answer) return "<none>";
  CHECK(answer.error().kind == ErrorKind::usage);
  return answer.error().message;
}

bool refuses(const Words& flags, const std::string& words) {
  const std::string said = group_error(flags);
  INFO(said);
  return said.starts_with("--replica-groups '") && said.find(words) != std::string::npos;
}

std::vector<std::string> devices(const Words& flags, const Host& host) {
  return plan_of_groups(flags, host).spec.replicas.devices;
}

}  // namespace

TEST_CASE("the workers of a node are divided into groups of one size") {
  const auto made = plan_of_groups({"--nproc=6", "--replica-groups=3", "--max-restarts=2"});
  CHECK(made.spec.replicas.groups == 3);
  CHECK(made.spec.nproc_per_node == 2);
  CHECK(made.spec.max_restarts == 2);
  CHECK(made.spec.prefix_template == "[g${replica_group}:${rank}] ");
  CHECK(plan_of_groups({"--nproc=6"}).spec.replicas.groups == 0);
  CHECK(plan_of_groups({"--nproc=6", "--replica-groups=0"}).spec.nproc_per_node == 6);
  CHECK(plan_of_groups({"--nproc=2", "--replica-groups=1"}).spec.replicas.groups == 1);
  CHECK(refuses({"--nproc=4", "--replica-groups=3"}, "4 workers of this node cannot be divided into 3 equal groups"));
  CHECK(refuses({"--replica-groups=2"}, "1 worker of this node cannot be divided"));
}

TEST_CASE("threads are shared by the workers of all groups") {
  Host host = host_of_gpus(0);
  host.cpus = 8;
  const auto made = plan_of_groups({"--nproc=4", "--replica-groups=2"}, host);
  const auto& env = made.spec.extra_env;
  CHECK(std::find(env.begin(), env.end(), std::pair<std::string, std::string>("OMP_NUM_THREADS", "2")) != env.end());
}

TEST_CASE("what several jobs cannot share, or what says otherwise who goes on, is refused") {
  const Words groups = {"--nproc=4", "--replica-groups=2"};
  const auto with = [&](Words more) {
    more.insert(more.begin(), groups.begin(), groups.end());
    return more;
  };
  CHECK(refuses(with({"--survivors=1"}), "--survivors"));
  CHECK(refuses(with({"--attach=0"}), "--attach"));
  CHECK(refuses(with({"--stdin=1"}), "--stdin all or none"));
  CHECK(refuses(with({"--master-port=65535"}), "a port of its own"));
  CHECK(group_error(with({"--stdin=none", "--standalone"})) == "<none>");
  CHECK(group_error(with({"--stdin=all", "--master-port=65534"})) == "<none>");
}

TEST_CASE("each of several nodes has whole groups, and needs no meeting and no token") {
  const Words node = {"--nproc=4", "--nnodes=2", "--node-rank=1", "--master-addr=127.0.0.1", "--replica-groups=4"};
  const auto made = plan_of_groups(node);
  CHECK(made.spec.replicas.groups == 4);
  CHECK(made.spec.replicas.here == 2);
  CHECK(made.spec.replicas.first == 2);
  CHECK(made.spec.nproc_per_node == 2);
  CHECK_FALSE(made.spec.nodes.several());
  CHECK_FALSE(made.spec.nodes.across_hosts);
  CHECK(made.spec.nodes.port == 0);
  CHECK(made.spec.run_id == "none");
  const auto with = [](Words more) {
    more.insert(more.begin(), {"--nproc=4", "--master-addr=127.0.0.1"});
    return more;
  };
  const Words second = {"--nnodes=2", "--node-rank=1", "--replica-groups=4"};
  auto more = with(second);
  more.emplace_back("--master-port=29600");
  CHECK(plan_of_groups(more).spec.nodes.port == 29602);
  more.back() = "--master-port=65534";
  CHECK(refuses(more, "above 65534 there are not 3 more"));
  more.back() = "--topology=rack1";
  CHECK_FALSE(plan_of_groups(more).notes.empty());
  more.back() = "--copy-state";
  CHECK(refuses(more, "leave out --copy-state"));
  CHECK(refuses(with({"--nnodes=2", "--node-rank=0", "--replica-groups=3"}), "3 groups cannot be divided among 2"));
  CHECK(refuses(with({"--nnodes=2", "--node-rank=0", "--replica-groups=1"}), "1 group cannot be divided among 2"));
  CHECK(refuses({"--nnodes=1:2", "--rdzv-endpoint=127.0.0.1", "--replica-groups=2"}, "MIN:MAX"));
  CHECK(refuses({"--nnodes=2", "--rdzv-endpoint=127.0.0.1", "--replica-groups=2"}, "--node-rank"));
}

TEST_CASE("each group sees its part of the GPUs, since LOCAL_RANK begins with 0 in each") {
  const Words groups = {"--nproc=4", "--replica-groups=2"};
  using Lists = std::vector<std::string>;
  CHECK(devices(groups, host_of_gpus(4)) == Lists{"0,1", "2,3"});
  CHECK(devices(groups, host_of_gpus(8)) == Lists{"0,1", "2,3"});
  CHECK(devices(groups, host_of_gpus(5)) == Lists{"0,1", "2,3"});
  CHECK(devices(groups, host_of_gpus(0)).empty());
  CHECK(devices(groups, host_of_gpus(1)).empty());
  const auto shared = plan_of_groups(groups, host_of_gpus(2));
  CHECK(shared.spec.replicas.devices.empty());
  CHECK(std::find(shared.notes.begin(), shared.notes.end(),
                  "--replica-groups: each group sees all 2 GPUs: the 4 workers of all groups are more") !=
        shared.notes.end());
  Host unlisted = host_of_gpus(4);  // only the driver's library knows them
  unlisted.listed_gpus = [] { return GpuInventory{}; };
  CHECK(devices(groups, unlisted) == Lists{"0,1", "2,3"});
  CHECK(devices({"--nproc=gpu", "--replica-groups=2"}, host_of_gpus(6)) == Lists{"0,1,2", "3,4,5"});
  CHECK(devices(groups, host_of_gpus(8, {{"CUDA_VISIBLE_DEVICES", "7, 5,3,1"}})) == Lists{"7,5", "3,1"});
  CHECK(devices({"--nproc=1", "--replica-groups=1"}, host_of_gpus(1)) == Lists{"0"});
  const auto amd = plan_of_groups(groups, host_of_gpus(4, {}, GpuInventory::Maker::amd));
  CHECK(amd.spec.replicas.hip);
  CHECK(amd.spec.replicas.devices == Lists{"0,1", "2,3"});
  const auto own = plan_of_groups({"--nproc=4", "--replica-groups=2", "--virtual-local-rank"}, host_of_gpus(4));
  CHECK(own.spec.replicas.devices.empty());
  CHECK(own.spec.own_devices.by_local_rank == Lists{"0", "1", "2", "3"});
}

TEST_CASE("Kubeflow Trainer is not told of several jobs as of one") {
  Host host = host_of_gpus(0);
  host.env["KUBEFLOW_TRAINER_SERVER_URL"] = "http://trainer";
  CHECK(plan_of_groups({}, host).spec.status_server.has_value());
  CHECK_FALSE(plan_of_groups({"--nproc=2", "--replica-groups=2"}, host).spec.status_server.has_value());
}
