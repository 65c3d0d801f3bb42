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
