// --state-dir: where the state of a job goes, and how its next run knows it.
#include "cli/resolve/resolve.h"
#include "test/support/catch.h"
#include "test/unit/cli/resolve/plan_of_flags.h"
#include "test/unit/cli/test_host.h"

namespace dtrain::cli {
namespace {

using Words = std::vector<std::string>;
using Catch::Contains;
using launcher::StateFiles;

Host host_with_folder(std::map<std::string, std::string> env = {}) {
  Host host = test_host({{"/states", folder()}, {"/work/states", folder()}, {"/file", plain_file()}});
  host.folder = [] { return std::string("/work"); };
  for (const auto& [name, value] : env) host.env[name] = value;
  return host;
}

StateFiles state_files(const Words& flags, const Host& host = host_with_folder()) {
  const Plan plan = plan_of_flags(flags, host);
  CHECK(plan.spec.keep_state);
  CHECK(plan.notes.empty());
  return plan.spec.state_files.value_or(StateFiles{});
}

std::string state_error(const Words& flags, const Host& host = host_with_folder()) {
  const auto plan = plan_or_error(flags, host);
  if (plan) return "<none>";
  CHECK(plan.error().kind == ErrorKind::usage);
  return plan.error().message;
}

std::map<std::string, std::string> step(const std::string& nodes, const std::string& node) {
  return {{"SLURM_CLUSTER_NAME", "main"},
          {"SLURM_JOB_ID", "4711"},
          {"SLURM_STEP_ID", "2"},
          {"SLURM_STEP_NUM_NODES", nodes},
          {"SLURM_STEP_NUM_TASKS", nodes},
          {"SLURM_NTASKS", nodes},
          {"SLURM_STEP_TASKS_PER_NODE", "1(x" + nodes + ")"},
          {"SLURM_NODEID", node},
          {"SLURM_PROCID", node},
          {"SLURM_STEP_NODELIST", "node[1-" + nodes + "]"},
          {"SLURM_TASK_PID", "7"},
          {"DTRAIN_TOKEN_FILE", "/file"}};
}

}  // namespace

TEST_CASE("a job with a name has its state in a folder for its next run") {
  const StateFiles files = state_files({"--state-dir=/states", "--rdzv-id=mine"});
  CHECK(files.folder == "/states");
  CHECK(files.key == "mine");
  CHECK(files.node == 0);
  CHECK(files.nodes == 1);
  CHECK(files.after_failure);
  CHECK_FALSE(files.next_run);
  CHECK(state_files({"--state-dir=/states"}, host_with_folder({{"DTRAIN_RDZV_ID", "by variable"}})).key ==
        "by variable");
  CHECK(state_files({"--state-dir=states", "--rdzv-id=mine"}).folder == "/work/states");
  const auto none = plan_or_error({"--keep-state", "--max-restarts=1"}, host_with_folder());
  CHECK_FALSE(none->spec.state_files);
  const StateFiles one = state_files(
      {"--state-dir=/states", "--rdzv-id=mine", "--nnodes=3", "--node-rank=2", "--rdzv-endpoint=127.0.0.1:29500"});
  CHECK(one.node == 2);
  CHECK(one.nodes == 3);
}

TEST_CASE("a state that no next run would find is an error at the start") {
  CHECK(state_error({"--state-dir=/states"}) ==
        "--state-dir '/states': the job's next run must know it: name it (--rdzv-id)");
  Host placed = host_with_folder();
  placed.place.emplace();
  placed.place->run_id = "of this run";
  CHECK_THAT(state_error({"--state-dir=/states"}, placed), Contains("name it (--rdzv-id)"));
  CHECK(state_error({"--state-dir=/nowhere", "--rdzv-id=mine"}) ==
        "--state-dir '/nowhere': there is no folder /nowhere; make it, on a file system of all nodes");
  CHECK_THAT(state_error({"--state-dir=/file", "--rdzv-id=mine"}), Contains("there is no folder /file"));
  CHECK_THAT(state_error({"--state-dir=/states", "--rdzv-id=mine", "--nnodes=2", "--rdzv-endpoint=127.0.0.1:29500"}),
             Contains("nodes that come in any order do not know their own files; number them (--node-rank)"));
  const std::string brackets(67, '[');  // three bytes each in a file's name
  CHECK(state_error({"--state-dir=/states", "--rdzv-id=" + brackets}) ==
        "--state-dir '/states': the name of the job takes 201 bytes in names of files, and 200 at most are possible; "
        "give it a shorter one (--rdzv-id)");
  CHECK(state_error({"--state-dir=/states", "--rdzv-id=" + brackets.substr(1)}) == "<none>");
  CHECK_THAT(state_error({"--state-dir=/states", "--rdzv-id=mine"}, host_with_folder({{"TORCHELASTIC_RUN_ID", "x"}})),
             Contains("a job in a worker of another job cannot have it"));
}

TEST_CASE("a job of SLURM's is known by its cluster, number and step") {
  CHECK(state_files({"--state-dir=/states"}, host_with_folder({{"SLURM_CLUSTER_NAME", "main"}, {"SLURM_JOB_ID", "12"}}))
            .key == "main.12");
  auto env = step("1", "0");
  CHECK(state_files({"--state-dir=/states"}, host_with_folder(env)).key == "main.4711.2.0");
  CHECK(state_files({"--state-dir=/states", "--rdzv-id=mine"}, host_with_folder(env)).key == "main.4711.mine.0");
  env["SLURM_PROCID"] = "3";  // of several tasks, each a job
  CHECK(state_files({"--state-dir=/states", "--rdzv-id=mine"}, host_with_folder(env)).key == "main.4711.mine.3");
  Host host = host_with_folder(step("3", "1"));
  host.env.erase("DTRAIN_TOKEN_FILE");
  host.munge = [] { return Result<void>(); };
  const StateFiles files = state_files({"--state-dir=/states"}, host);
  CHECK(files.key == "main.4711.2");
  CHECK(files.node == 1);
  CHECK(files.nodes == 3);
  CHECK_FALSE(files.after_failure);
}

TEST_CASE("SLURM is asked whether a job that was stopped runs again") {
  Host host = host_with_folder({{"SLURM_JOB_ID", "12"}, {"SLURM_RESTART_COUNT", "1"}});
  using launcher::NextRun;
  CHECK(state_files({"--state-dir=/states"}, host).next_run() == NextRun::may_come);  // nobody answers
  for (const bool again : {false, true}) {
    host.scontrol = [again](const std::vector<std::string>& words, std::chrono::seconds patience) {
      CHECK(patience == std::chrono::seconds(5));  // the other nodes wait
      CHECK(words == std::vector<std::string>{"show", "job", "12", "--oneliner"});
      return Result<std::string>(std::string("BatchFlag=1 Requeue=1 JobState=COMPLETING Reason=None Restarts=") +
                                 (again ? "2" : "1"));
    };
    CHECK(state_files({"--state-dir=/states"}, host).next_run() == (again ? NextRun::may_come : NextRun::cancelled));
  }
}

TEST_CASE("a job whose agents write its state is not asked to save, but to end") {
  using namespace std::chrono_literals;
  Host host = host_with_folder({{"SLURM_JOB_ID", "12"}});
  host.scontrol = [](const std::vector<std::string>&, std::chrono::seconds) {
    return Result<std::string>("Requeue=1 BatchFlag=1 RunTime=00:10:00 TimeLimit=01:00:00");
  };
  const auto plan = plan_or_error({"--state-dir=/states", "--requeue=60"}, host);
  REQUIRE(plan.ok());
  CHECK(plan->requeue->agents_write);
  CHECK(plan->requeue->ask == 49min);
  CHECK(plan->requeue->last == 49min);
  CHECK(plan->requeue->end == 50min);
  CHECK_FALSE(plan->requeue->together);
}

}  // namespace dtrain::cli
