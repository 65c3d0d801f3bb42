// --nproc gpu and its relatives, and --virtual-local-rank.
#include <map>

#include "cli/resolve/resolve.h"
#include "launcher/job/worker_env.h"
#include "test/support/catch.h"
#include "test/unit/cli/resolve/plan_of_flags.h"
#include "test/unit/cli/test_host.h"

using namespace dtrain;
using namespace dtrain::cli;
using Words = std::vector<std::string>;

namespace {

Host with_gpus(int count, std::map<std::string, std::string> env = {}) {
  Host host = test_host();
  host.env.merge(env);
  host.gpus = host.listed_gpus = [count] {
    GpuInventory inventory;
    for (int i = 0; i < count; ++i) inventory.gpus.push_back({"GPU-" + std::to_string(i), ""});
    return inventory;
  };
  return host;
}

Plan plan(const Words& flags, const Host& host) { return plan_of_flags(flags, host); }

std::string error(const Words& flags, const Host& host) {
  auto answer = plan_or_error(flags, host);
  return answer ? "<none>" : answer.error().message;
}

std::map<std::string, std::string> env_of(const Plan& made, int local_rank) {
  std::map<std::string, std::string> env;
  for (const auto& [name, value] : launcher::worker_env(made.spec, {}, local_rank, {})) env[name] = value;
  return env;
}

bool says(const Plan& made, const std::string& words) {
  for (const std::string& note : made.notes)
    if (note.find(words) != std::string::npos) return true;
  return false;
}

}  // namespace

TEST_CASE("accelerators that dtrain cannot count are refused by name") {
  CHECK(error({"--nproc=xpu"}, test_host()) ==
        "--nproc 'xpu': dtrain counts only NVIDIA and AMD GPUs (gpu) and cores (cpu); give a number instead");
  CHECK(error({"--nproc=gpus"}, test_host()).ends_with("or auto, cpu, gpu"));
}

TEST_CASE("more workers than GPUs is said, and asks no driver") {
  Host host = with_gpus(4);
  host.gpus = []() -> GpuInventory { throw std::logic_error("a number asks no driver"); };
  CHECK(says(plan({"--nproc=8"}, host), "8 workers share 4 GPUs"));
  CHECK_FALSE(says(plan({"--nproc=4"}, host), "share"));
  host.env["CUDA_VISIBLE_DEVICES"] = "2";
  CHECK(says(plan({"--nproc=2"}, host), "2 workers share 1 GPU"));
  CHECK_FALSE(says(plan({"--nproc=1"}, host), "share"));
  host.env["CUDA_VISIBLE_DEVICES"] = "";
  CHECK_FALSE(says(plan({"--nproc=2"}, host), "share"));
  CHECK_FALSE(says(plan({"--nproc=8"}, test_host()), "share"));
}

TEST_CASE("with --use-gpu yes each worker of the node needs a GPU, and with no it sees none") {
  CHECK(plan({"--nproc=2", "--use-gpu=yes"}, with_gpus(2)).spec.nproc_per_node == 2);
  CHECK(plan({"--nproc=4", "--use-gpu=auto"}, with_gpus(2)).spec.nproc_per_node == 4);
  CHECK(error({"--nproc=3", "--use-gpu=yes"}, with_gpus(2)) ==
        "--use-gpu 'yes': this node has 2 usable GPUs for 3 workers; correct --nproc, or say no");
  CHECK(error({"--nproc=4", "--replica-groups=2", "--use-gpu=yes"}, with_gpus(2)) ==
        "--use-gpu 'yes': this node has 2 usable GPUs for 4 workers; correct --nproc, or say no");
  CHECK(error({"--use-gpu=yes"}, with_gpus(2, {{"CUDA_VISIBLE_DEVICES", ""}}))
            .starts_with("--use-gpu 'yes': this node has 0"));
  for (const Words& flags :
       {Words{"--nproc=2", "--use-gpu=no"}, Words{"--nproc=2", "--replica-groups=2", "--use-gpu=no"}}) {
    const Plan hidden = plan(flags, with_gpus(2));
    CHECK_FALSE(says(hidden, "share"));
    CHECK(hidden.spec.replicas.devices.empty());
    for (const char* name : {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"})
      CHECK(env_of(hidden, 0).at(name).empty());
  }
  CHECK_FALSE(says(plan({"--nproc=8", "--use-gpu=no"}, with_gpus(4)), "share"));
  CHECK(plan({"--nproc=auto", "--use-gpu=no"}, with_gpus(2)).spec.nproc_per_node == 8);
  CHECK(error({"--nproc=gpu", "--use-gpu=no"}, with_gpus(2)) ==
        "--use-gpu 'no': --nproc needs GPUs; leave out one of the two");
  CHECK(error({"--virtual-local-rank", "--use-gpu=no"}, with_gpus(2)) ==
        "--use-gpu 'no': --virtual-local-rank needs GPUs; leave out one of the two");
  CHECK(error({"--use-gpu=maybe"}, with_gpus(2)) == "--use-gpu 'maybe': expected one of auto, yes, no");
}

TEST_CASE("with MIG instances: one process uses one, unless each worker has its own") {
  Host host = test_host();
  host.env["CUDA_VISIBLE_DEVICES"] = "MIG-a,MIG-b";
  host.gpus = [] { return GpuInventory{{}, {{"GPU-0", "", true, {{"MIG-a", 1, 0}, {"MIG-b", 2, 0}}}}, ""}; };
  Plan one = plan({"--nproc=gpu"}, host);
  CHECK(one.spec.nproc_per_node == 1);
  CHECK(says(one, "--virtual-local-rank"));
  Plan both = plan({"--nproc=gpu", "--virtual-local-rank"}, host);
  CHECK(both.spec.nproc_per_node == 2);
  CHECK(env_of(both, 1)["CUDA_VISIBLE_DEVICES"] == "MIG-b");
}

TEST_CASE("with --virtual-local-rank every worker is local rank 0 with one device") {
  Plan made = plan({"--nproc=2", "--virtual-local-rank"}, with_gpus(2));
  CHECK(env_of(made, 1)["LOCAL_RANK"] == "0");
  CHECK(env_of(made, 1)["RANK"] == "1");
  CHECK(env_of(made, 1)["CUDA_VISIBLE_DEVICES"] == "1");
  CHECK(env_of(made, 1).count("HIP_VISIBLE_DEVICES") == 0);

  made = plan({"--nproc=2", "--virtual-local-rank"}, with_gpus(8, {{"CUDA_VISIBLE_DEVICES", "5, GPU-3 ,1"}}));
  CHECK(env_of(made, 0)["CUDA_VISIBLE_DEVICES"] == "5");
  CHECK(env_of(made, 1)["CUDA_VISIBLE_DEVICES"] == "GPU-3");

  made = plan({"--nproc=2", "--virtual-local-rank"},
              with_gpus(8, {{"CUDA_VISIBLE_DEVICES", "0,1"}, {"HIP_VISIBLE_DEVICES", "6,7"}}));
  CHECK(env_of(made, 1)["CUDA_VISIBLE_DEVICES"] == "7");
  CHECK(env_of(made, 1)["HIP_VISIBLE_DEVICES"] == "7");

  CHECK(error({"--nproc=3", "--virtual-local-rank"}, with_gpus(8, {{"CUDA_VISIBLE_DEVICES", "0,1"}})) ==
        "--virtual-local-rank: 3 workers, but CUDA_VISIBLE_DEVICES=0,1 has fewer entries");
  CHECK(env_of(plan({"--nproc=2"}, with_gpus(2)), 1)["LOCAL_RANK"] == "1");
}
