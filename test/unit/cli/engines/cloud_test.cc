// When a cloud's runner says where nodes meet.
#include "cli/engines/cloud.h"

#include "test/support/catch.h"
#include "test/unit/cli/engines/placed.h"

using namespace dtrain;
using namespace dtrain::cli;

namespace {

Host on_cloud(const std::string& address = "10.0.0.4") {
  Host host = test_host({{"./train", executable_file()}});
  host.env.insert({{"DSTACK_NODES_NUM", "2"},
                   {"DSTACK_NODE_RANK", "1"},
                   {"DSTACK_MASTER_NODE_IP", address},
                   {"DSTACK_RUN_NAME", "wet-mangust-1"}});
  host.token = JobSecret::generate();
  host.meeting_address = [](const std::string& name) {
    return Result<MeetingAddress>(judge_meeting_address({name}, {{"eth0", "10.0.0.5"}}));
  };
  return host;
}

Host in_pod(const std::string& name = "train-2.train.team.svc.cluster.local") {
  Host host = on_cloud();
  for (const char* each : {"DSTACK_NODES_NUM", "DSTACK_NODE_RANK", "DSTACK_MASTER_NODE_IP", "DSTACK_RUN_NAME"})
    host.env.erase(each);
  host.env["JOB_COMPLETION_INDEX"] = "2";
  host.full_name = [name] { return name; };
  return host;
}

const std::string kNotPlaced = "127.0.0.1:0 -1 of 1:1, 1, job-1a2b3c4d";

}  // namespace

TEST_CASE("a command that a cloud's runner runs on each node is one job") {
  CHECK(placed({}, on_cloud()) == "10.0.0.4:29500 1 of 2:2, 1, wet-mangust-1");
  CHECK(placed({}, on_cloud("fd00::4")) == "fd00::4:29500 1 of 2:2, 1, wet-mangust-1");
  CHECK(placed({"--master-port", "4000", "--rdzv-id", "mine"}, on_cloud()) == "10.0.0.4:4000 1 of 2:2, 1, mine");
}

TEST_CASE("a cloud's word does not count where the user has said otherwise, nor for torchrun") {
  CHECK(placed({"--standalone"}, on_cloud()) == kNotPlaced);
  CHECK(placed({"--nnodes", "1"}, on_cloud()) == kNotPlaced);
  CHECK(placed({}, on_cloud(), CalledAs::torchrun) == kNotPlaced);
  // Nor where an innermost launcher has.
  Host host = on_cloud();
  host.env.insert({{"SLURM_JOB_ID", "7"},
                   {"SLURM_STEP_ID", "0"},
                   {"SLURM_STEP_NUM_NODES", "3"},
                   {"SLURM_STEP_TASKS_PER_NODE", "1(x3)"},
                   {"SLURM_STEP_NODELIST", "node[1-3]"},
                   {"SLURM_NODEID", "1"}});
  CHECK(placed({}, host) == "node1:20217 1 of 3:3, 1, 7.0");
}

TEST_CASE("the pods of an indexed Job are nodes by their indices") {
  CHECK(placed({"--nnodes", "4"}, in_pod()) == "train-0.train.team.svc.cluster.local:29500 2 of 4:4, 1, train");
  CHECK(placed({"--nnodes", "4", "--master-port", "4000", "--rdzv-id", "mine"}, in_pod()) ==
        "train-0.train.team.svc.cluster.local:4000 2 of 4:4, 1, mine");
  CHECK(placed({"--nnodes", "2"}, in_pod()) ==
        "JOB_COMPLETION_INDEX='2': ranks of nodes count from 0, and there are 2 (--nnodes)");
  // A number of nodes that may change: they are numbered as they come.
  CHECK(placed({"--nnodes", "2:4"}, in_pod()) == "train-0.train.team.svc.cluster.local:29500 -1 of 2:4, 1, train");
  CHECK_THAT(placed({"--nnodes", "0"}, in_pod("train-2")), Catch::Contains("a job has at least 1 node"));
  // Only the number of this node is missing.
  CHECK(placed({"--nnodes", "4", "--master-addr", "head"}, in_pod()) == "head:29500 2 of 4:4, 1, none");
  CHECK_THAT(placed({"--nnodes", "4"}, in_pod("train-2")),
             Catch::StartsWith("this is pod 2 of an indexed Job, and its name train-2 has no domain"));
}

TEST_CASE("an index of Kubernetes does not count where somebody has said otherwise") {
  CHECK(placed({}, in_pod()) == kNotPlaced);
  CHECK(placed({"--nnodes", "1"}, in_pod()) == kNotPlaced);
  CHECK(placed({"--nnodes", "4", "--rdzv-endpoint", "head"}, in_pod()) == "head:29400 -1 of 4:4, 1, none");
  CHECK(placed({"--nnodes", "4", "--node-rank", "1", "--master-addr", "head"}, in_pod()) ==
        "head:29500 1 of 4:4, 1, none");
  CHECK_THAT(placed({"--nnodes", "4", "--master-addr", "head"}, in_pod(), CalledAs::torchrun),
             Catch::Contains("without --node-rank a node is node 0"));
  // Kubeflow's Trainer sets both.
  Host trainer = in_pod();
  trainer.env.insert({{"PET_NNODES", "4"},
                      {"PET_NODE_RANK", "2"},
                      {"PET_MASTER_ADDR", "job-node-0-0.job"},
                      {"PET_MASTER_PORT", "29500"},
                      {"PET_NPROC_PER_NODE", "3"}});
  CHECK(placed({}, trainer) == "job-node-0-0.job:29500 2 of 4:4, 3, none");
}
