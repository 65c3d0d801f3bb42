// What SkyPilot and dstack set on each node, as their documentation has it.
#include "launcher/engines/cloud_plan.h"

#include <fmt/format.h>

#include "test/support/catch.h"

using namespace dtrain::launcher;
using Catch::Contains;

namespace {

Variables by_skypilot() {
  return {{"SKYPILOT_NUM_NODES", "2"},
          {"SKYPILOT_NODE_RANK", "1"},
          {"SKYPILOT_NODE_IPS", "10.0.0.4\n10.0.0.5"},
          {"SKYPILOT_NUM_GPUS_PER_NODE", "8"},
          {"SKYPILOT_TASK_ID", "sky-2026-11-28-05-00-00-1_train-7"}};
}

Variables by_dstack() {
  return {{"DSTACK_NODES_NUM", "3"},
          {"DSTACK_NODE_RANK", "0"},
          {"DSTACK_MASTER_NODE_IP", "10.1.0.4"},
          {"DSTACK_RUN_NAME", "wet-mangust-1"}};
}

}  // namespace

TEST_CASE("SkyPilot and dstack say which node this is, and where node 0 is") {
  const auto sky = *cloud_place(by_skypilot());
  REQUIRE(sky);
  CHECK((sky->nodes == 2 && sky->node_rank == 1 && sky->address == "10.0.0.4"));
  CHECK(sky->id == "sky-2026-11-28-05-00-00-1_train-7");
  const auto dstack = *cloud_place(by_dstack());
  REQUIRE(dstack);
  CHECK((dstack->nodes == 3 && dstack->node_rank == 0 && dstack->address == "10.1.0.4"));
  CHECK(dstack->id == "wet-mangust-1");
  CHECK_FALSE(*cloud_place({}));
  Variables worker = by_dstack();
  worker["TORCHELASTIC_RUN_ID"] = "x";
  CHECK_FALSE(*cloud_place(worker));
}

TEST_CASE("a runner whose variables contradict each other is an error that shows them") {
  for (const auto& [name, value] : Variables{{"SKYPILOT_NODE_RANK", "2"}, {"SKYPILOT_NUM_NODES", "x"}}) {
    Variables env = by_skypilot();
    env[name] = value;
    CHECK_THAT(cloud_place(env).error().message, Contains(name + " is '" + value + "'"));
  }
  Variables env = by_skypilot();
  env["SKYPILOT_NODE_IPS"] = "";
  CHECK_THAT(cloud_place(env).error().message, Contains("SkyPilot: SKYPILOT_NUM_NODES is '2'"));
}

TEST_CASE("a pod of an indexed Job finds the first one by its own name") {
  const auto pod = [](const char* index, const char* name) {
    const auto found = indexed_pod({{"JOB_COMPLETION_INDEX", index}}, name);
    return found ? fmt::format("{} of {}, {}", found->index, found->job, found->first) : "none";
  };
  CHECK(pod("3", "train-3.train.default.svc.cluster.local") == "3 of train, train-0.train.default.svc.cluster.local");
  // JobSet's: JOBSET-REPLICATED_JOB-REPLICA-INDEX.
  CHECK(pod("1", "pytorch-workers-0-1.pytorch") == "1 of pytorch-workers-0, pytorch-workers-0-0.pytorch");
  CHECK(pod("0", "train-0.train") == "0 of train, train-0.train");
  for (const char* name : {"train-3", "train-x9k2f.train", "-3.train", "train-13.train", ""})
    CHECK(pod("3", name) == "3 of , ");
  for (const char* index : {"", "x", "-1", "99999999999"}) CHECK(pod(index, "train-3.train") == "none");
  CHECK_FALSE(indexed_pod({}, "train-3.train"));
  CHECK_FALSE(indexed_pod({{"JOB_COMPLETION_INDEX", "3"}, {"TORCHELASTIC_RUN_ID", "x"}}, "train-3.train"));
}
