// When SLURM's word counts for where nodes meet, and when the user's does.
#include "cli/engines/slurm.h"

#include <fmt/format.h>

#include "cli/doctor/doctor.h"
#include "cli/resolve/resolve.h"
#include "test/support/catch.h"
#include "test/unit/cli/test_host.h"

using namespace dtrain;
using namespace dtrain::cli;

namespace {

Host in_step(const std::string& address = "127.0.0.1") {
  Host host = test_host({{"./train", executable_file()}});
  host.env.insert({{"SLURM_JOB_ID", "7"},
                   {"SLURM_STEP_ID", "0"},
                   {"SLURM_STEP_NUM_NODES", "3"},
                   {"SLURM_STEP_TASKS_PER_NODE", "1(x3)"},
                   {"SLURM_STEP_NODELIST", "node[1-3]"},
                   {"SLURM_NODEID", "1"}});
  host.token = JobSecret::generate();
  host.meeting_address = [](const std::string& name) {
    return Result<MeetingAddress>(judge_meeting_address({name}, {{"eth0", name}}));
  };
  host.slurm_address = [address](const std::string& node) { return node == "node1" ? address : "?"; };
  return host;
}

// "host:port rank of min:max, name" of the job, or the error.
std::string outcome(std::vector<std::string> words, const Host& host = in_step(), CalledAs as = CalledAs::dtrain) {
  words.push_back("./train");
  auto plan = resolve(*parse(words, as), host);
  if (!plan) return plan.error().message;
  const auto& nodes = plan->spec.nodes;
  return fmt::format("{}:{} {} of {}:{}, {}", nodes.master_addr, nodes.port, nodes.node_rank, nodes.min, nodes.max,
                     plan->spec.run_id);
}

const std::string kAlone = "127.0.0.1:0 -1 of 1:1, job-1a2b3c4d";

}  // namespace

TEST_CASE("a step of several nodes is a job of several nodes, with no flags") {
  CHECK(outcome({}) == "127.0.0.1:20217 1 of 3:3, 7.0");
  CHECK(outcome({"--nnodes", "3"}) == "127.0.0.1:20217 1 of 3:3, 7.0");
  CHECK(outcome({}, in_step("::1")) == "::1:20217 1 of 3:3, 7.0");
  CHECK(outcome({"--rdzv-id", "mine"}) == "127.0.0.1:20217 1 of 3:3, mine");
  CHECK(outcome({"--master-port", "4000"}) == "127.0.0.1:4000 1 of 3:3, 7.0");
  CHECK(outcome({"--rdzv-conf", "timeout=5"}) == "127.0.0.1:20217 1 of 3:3, 7.0");
}

TEST_CASE("a range of nodes has those of the step, as they come, and the first one hosts the job") {
  CHECK(outcome({"--nnodes", "2:3"}) == "127.0.0.1:20217 -1 of 2:3, 7.0");
  CHECK(outcome({"--nnodes", "2:8"}) == "127.0.0.1:20217 -1 of 2:3, 7.0");
  CHECK(outcome({"--nnodes", "1:2"}) == "127.0.0.1:20217 -1 of 1:2, 7.0");  // and a spare
  CHECK(outcome({"--nnodes", "3:5"}) == "127.0.0.1:20217 1 of 3:3, 7.0");
  CHECK(outcome({"--nnodes", "4:5"}) == "--nnodes '4:5': the step of SLURM has 3 nodes: give srun more with -N");
  Host host = in_step("10.0.0.9");
  const auto address = [&] {
    return resolve(*parse(std::vector<std::string>{"--nnodes", "2:3", "./train"}, CalledAs::dtrain), host)
        ->spec.nodes.address;
  };
  CHECK(address().empty());
  host.env["SLURM_NODEID"] = "0";
  CHECK(address() == "10.0.0.9");
  Host astray = host;
  astray.meeting_address = [](const std::string&) {
    return Result<MeetingAddress>(judge_meeting_address({"10.0.0.8"}, {{"eth0", "10.0.0.9"}}));
  };
  CHECK_THAT(outcome({"--nnodes", "2:3"}, astray), Catch::Contains("not an address of this host"));
  // A step of one node has nobody to wait for.
  host.env.insert_or_assign("SLURM_STEP_NUM_NODES", "1");
  host.env.insert_or_assign("SLURM_STEP_TASKS_PER_NODE", "1");
  host.env.insert_or_assign("SLURM_STEP_NODELIST", "node1");
  CHECK(outcome({"--nnodes", "1:4"}, host) == kAlone);
}

TEST_CASE("with --ha the first three nodes of a step have the members, and the nodes have no numbers") {
  Host host = in_step();
  host.slurm_address = [](const std::string& node) { return node; };
  host.meeting_address = [](const std::string&) {
    return Result<MeetingAddress>(judge_meeting_address({"10.0.0.9"}, {}));
  };
  auto plan = resolve(*parse(std::vector<std::string>{"--ha", "./train"}, CalledAs::dtrain), host);
  INFO((plan ? "" : plan.error().message));
  REQUIRE(plan.ok());
  const auto& nodes = plan->spec.nodes;
  CHECK(nodes.node_rank == -1);
  REQUIRE(nodes.etcd->members.size() == 3);
  CHECK(nodes.etcd->members[2].name == "node3");
  CHECK(nodes.etcd->members[2].port == 20217);
  CHECK(nodes.etcd->own->self == -1);
  CHECK(nodes.etcd->https);
  // A token of MUNGE's comes too late for an etcd that is there from the beginning.
  host.token.reset();
  host.munge = [] { return Result<void>(); };
  CHECK(outcome({"--ha"}, host).find("a job across hosts needs a token") != std::string::npos);
}

TEST_CASE("what the user says about the nodes comes before SLURM") {
  CHECK(outcome({"--standalone"}) == kAlone);
  CHECK(outcome({"--nnodes", "1"}) == kAlone);
  CHECK(outcome({"--nnodes", "1:1"}) == kAlone);
  CHECK(outcome({"--nnodes", "2", "--node-rank", "1"}) == "127.0.0.1:29500 1 of 2:2, none");
  CHECK(outcome({"--nnodes", "2"}) == "127.0.0.1:29500 0 of 2:2, none");
  CHECK(outcome({"--nnodes", "3", "--rdzv-endpoint", "h:9"}) == "h:9 -1 of 3:3, none");
  CHECK(outcome({"--nnodes", "3", "--rdzv-backend", "c10d"}) == "localhost:29400 -1 of 3:3, none");
  CHECK(outcome({"--nnodes", "3", "--master-addr", "h"}) == "h:29500 0 of 3:3, none");
  Host host = in_step();
  host.env["PET_NNODES"] = "1";
  CHECK(outcome({}, host) == kAlone);
}

TEST_CASE("torchrun knows nothing of SLURM") {
  CHECK(outcome({}, in_step(), CalledAs::torchrun).find(" of 1:1, ") != std::string::npos);
  Host host = in_step();
  host.env["SLURM_STEP_TASKS_PER_NODE"] = "2(x3)";
  CHECK(outcome({}, host, CalledAs::torchrun).find(" of 1:1, ") != std::string::npos);
}

TEST_CASE("several tasks on a node: an error unless the user decides") {
  Host host = in_step();
  host.env["SLURM_STEP_TASKS_PER_NODE"] = "2(x3)";
  CHECK(outcome({}, host).find("--ntasks-per-node=1") != std::string::npos);
  CHECK(outcome({"--nnodes", "3"}, host).find("--ntasks-per-node=1") != std::string::npos);
  CHECK(outcome({"--standalone"}, host) == kAlone);
}

TEST_CASE("a value of SLURM's that is wrong is blamed on SLURM's variable") {
  Host host = in_step("far");
  host.meeting_address = [](const std::string&) { return Result<MeetingAddress>(Error{ErrorKind::usage, "no"}); };
  CHECK(outcome({}, host) == "SLURM_STEP_NODELIST='far:20217': no");
}

TEST_CASE("in one task of SLURM a failure may turn out to be of a signal that it has sent to all processes") {
  Host host = in_step();
  const std::vector<std::string> words = {"--standalone", "./train"};
  CHECK(resolve(*parse(words, CalledAs::dtrain), host)->spec.failure_settles.count() == 0);
  host.env["SLURM_TASK_PID"] = "4711";
  CHECK(resolve(*parse(words, CalledAs::dtrain), host)->spec.failure_settles.count() == 200);
  CHECK(resolve(*parse(std::vector<std::string>{"./train"}, CalledAs::dtrain), host)->spec.failure_settles.count() ==
        0);
}

TEST_CASE("doctor under SLURM") {
  const auto step = judge_slurm({}, "step 7.0", "", {}).front();
  CHECK(step.level == Finding::Level::ok);
  CHECK(step.detail == "step 7.0; MUNGE works, and nodes know each other by a secret that it carries");
  const auto file = judge_slurm({}, "step 7.0", "DTRAIN_TOKEN", {}).front();
  CHECK(file.detail == "step 7.0; MUNGE works, and nodes know each other by DTRAIN_TOKEN");
  const Error none{ErrorKind::system, "MUNGE: no munged"};
  const auto allocation = judge_slurm({{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NUM_NODES", "3"}}, "", "", none).front();
  CHECK(judge_slurm({}, "step 7.0", "FILE", none).front().level == Finding::Level::ok);
  CHECK(allocation.level == Finding::Level::warn);
  CHECK(allocation.detail ==
        "allocation 7 of 3 nodes, not in a step: `srun dtrain run` makes them one job; MUNGE: no munged");
  CHECK(allocation.cure.find("--token-file") != std::string::npos);
}
