// What SLURM's variables mean; those of the tables are as SLURM 22.05 sets them.
#include "launcher/engines/slurm_plan.h"

#include <fmt/format.h>

#include "test/support/catch.h"

using namespace dtrain::launcher;

namespace {

// A task of `srun -N3`, on the second node.
Variables in_step() {
  return {{"SLURM_JOB_ID", "4711"},
          {"SLURM_STEP_ID", "2"},
          {"SLURM_STEP_NUM_NODES", "3"},
          {"SLURM_STEP_TASKS_PER_NODE", "1(x3)"},
          {"SLURM_STEP_NODELIST", "gpu[07-08],login"},
          {"SLURM_NODEID", "1"},
          {"SLURMD_NODENAME", "gpu08"},
          {"SLURM_NNODES", "3"}};
}

Variables with(Variables env, const std::string& name, const std::string& value) {
  env[name] = value;
  return env;
}

std::string outcome(const Variables& env) {
  auto step = slurm_step(env);
  if (!step) return step.error().message;
  if (!*step) return "none";
  return fmt::format("{}: {} of {}, at {}", (*step)->id, (*step)->node_rank, (*step)->nodes, (*step)->host);
}

}  // namespace

TEST_CASE("a task of a step knows its place") {
  CHECK(outcome(in_step()) == "4711.2: 1 of 3, at gpu07");
  auto without_name = in_step();
  without_name.erase("SLURMD_NODENAME");
  CHECK(outcome(without_name) == "4711.2: 1 of 3, at gpu07");
}

TEST_CASE("what is no step of srun's is no job of several nodes") {
  CHECK(outcome({}) == "none");
  // A batch script's own shell: it has the allocation's variables, and no step.
  CHECK(outcome({{"SLURM_JOB_ID", "4711"}, {"SLURM_NNODES", "3"}, {"SLURM_NODEID", "0"}, {"SLURM_PROCID", "0"}}) ==
        "none");
  CHECK(outcome(with(in_step(), "SLURM_STEP_ID", "4294967291")) == "none");  // batch
  CHECK(outcome(with(in_step(), "SLURM_STEP_ID", "4294967290")) == "none");  // salloc's interactive step
  CHECK(outcome(with(in_step(), "SLURM_STEP_ID", "")) == "none");
  CHECK(outcome(with(in_step(), "SLURM_JOB_ID", "x")) == "none");
  CHECK(outcome(with(in_step(), "TORCHELASTIC_RUN_ID", "outer")) == "none");
}

TEST_CASE("several tasks on a node are an error with its cure") {
  const std::string both = outcome(with(in_step(), "SLURM_STEP_TASKS_PER_NODE", "2(x2),1"));
  CHECK(both.starts_with("SLURM step 4711.2 has 2 tasks on a node"));
  CHECK(both.find("--ntasks-per-node=1") != std::string::npos);
  CHECK(both.find("--standalone") != std::string::npos);
  const Variables alone = {
      {"SLURM_JOB_ID", "1"}, {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_NODES", "1"}, {"SLURM_STEP_TASKS_PER_NODE", "4"}};
  CHECK(outcome(alone).starts_with("SLURM step 1.0 has 4 tasks on a node"));
}

TEST_CASE("variables that contradict each other are an error") {
  CHECK(outcome(with(in_step(), "SLURM_STEP_NODELIST", "gpu[07-08]"))
            .starts_with("SLURM step 4711.2 has 3 nodes, but SLURM_STEP_NODELIST names 2"));
  CHECK(outcome(with(in_step(), "SLURM_NODEID", "3")).find("SLURM_NODEID is '3'") != std::string::npos);
  CHECK(outcome(with(in_step(), "SLURM_NODEID", "-1")).find("no number") != std::string::npos);
  CHECK(outcome(with(in_step(), "SLURM_STEP_NODELIST", "gpu[")).find("not a list of hosts") != std::string::npos);
  CHECK(outcome(with(in_step(), "SLURMD_NODENAME", "gpu07")).find("SLURMD_NODENAME is another") != std::string::npos);
  CHECK(outcome(with(in_step(), "SLURM_STEP_TASKS_PER_NODE", "")).find("not a list") != std::string::npos);
  CHECK(outcome(with(in_step(), "SLURM_STEP_NUM_NODES", "70000")).find("more than 65536") != std::string::npos);
}

TEST_CASE("steps have ports of their own") {
  const auto port = [](const char* job, const char* step) {
    return (*slurm_step(with(with(in_step(), "SLURM_JOB_ID", job), "SLURM_STEP_ID", step)))->port;
  };
  CHECK(port("1", "0") == 20031);
  CHECK(port("1", "0") != port("1", "1"));
  CHECK(port("1", "0") != port("2", "0"));
  CHECK(port("4294967295", "4294967279") >= 20000);
  CHECK(port("4294967295", "4294967279") < 29000);
}

TEST_CASE("tasks per node") {
  CHECK(most_tasks_a_node("1") == 1);
  CHECK(most_tasks_a_node("1(x3)") == 1);
  CHECK(most_tasks_a_node("2,1(x3),4") == 4);
  for (const char* text : {"", "0", "x", "1(x", "1(x)", "1(3)", "1,", ",1", "1(x2", "-1", "1 ", "99999999999"})
    CHECK(!most_tasks_a_node(text));
}
