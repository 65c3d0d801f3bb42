#include "launcher/job/worker_env.h"

#include <algorithm>
#include <csignal>

#include "test/support/catch.h"
#include "test/support/golden.h"

namespace dtrain::launcher {
namespace {

JobSpec two_workers() {
  JobSpec spec;
  spec.run_id = "job-1";
  spec.nproc_per_node = 2;
  spec.max_restarts = 3;
  spec.stop_signals = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
  spec.extra_env = {{"OMP_NUM_THREADS", "1"}};
  spec.strategy = "fsdp";
  return spec;
}

std::string text_of(const std::vector<std::string>& environment) {
  std::string text;
  for (const std::string& entry : environment) text += entry + "\n";
  return text;
}

}  // namespace

TEST_CASE("with --loader workers find its text") {
  JobSpec spec = two_workers();
  const auto found = [&] {
    for (const auto& [name, value] : worker_env(spec, Assignment{}, 0, {}))
      if (name == "DTRAIN_LOADER") return value;
    return std::string("<unset>");
  };
  CHECK(found() == "<unset>");
  spec.loader = R"({"fully_executed":false})";
  CHECK(found() == R"({"fully_executed":false})");
}

TEST_CASE("with --num-proc workers find horovodrun's variables") {
  JobSpec spec = two_workers();
  Assignment assignment{
      .node_rank = 1, .nnodes = 3, .base_rank = 2, .world_size = 6, .master_addr = "127.0.0.1", .master_port = 29511};
  const auto horovod = [&] {
    std::string text;
    for (const auto& [name, value] : worker_env(spec, assignment, 1, {}))
      if (name.starts_with("HOROVOD_")) text += name.substr(8) + "=" + value + " ";
    return text;
  };
  CHECK(horovod().empty());
  spec.horovod = true;
  CHECK(horovod() == "RANK=3 SIZE=6 LOCAL_RANK=1 LOCAL_SIZE=2 CROSS_RANK=1 CROSS_SIZE=3 ");
  assignment.uniform = false;
  CHECK(horovod() == "RANK=3 SIZE=6 LOCAL_RANK=1 LOCAL_SIZE=2 ");
}

TEST_CASE("the worker environment of one node is torchrun's") {
  Assignment assignment{.round = 1,
                        .restart_count = 1,
                        .world_size = 2,
                        .role_world_size = 2,
                        .master_addr = "127.0.0.1",
                        .master_port = 29511};
  Environment env =
      worker_env(two_workers(), assignment, 1, {"/logs/job-1_x/attempt_1/1/error.json", "/logs/job-1_x/attempt_1"});
  test::check_golden("env/one_node_rank1.txt", text_of(apply({}, env)));
}

TEST_CASE("a worker learns where the memory of its state is, and of none that belongs to a job around this one") {
  JobSpec spec = two_workers();
  spec.keep_state = true;
  Assignment assignment;
  assignment.world_size = 2;
  test::check_golden("env/kept_state_rank0.txt", text_of(apply({}, worker_env(spec, assignment, 0, {}))));
  const auto without = apply({"DTRAIN_STATE_FD=100", "DTRAIN_STATE_COPY_FD=101"}, worker_env(two_workers(), {}, 0, {}));
  for (const char* name : {"DTRAIN_STATE_FD=", "DTRAIN_STATE_COPY_FD="})
    CHECK(std::count(without.begin(), without.end(), name) == 1);
  spec.copy_state = true;
  test::check_golden("env/copied_state_rank0.txt", text_of(apply({}, worker_env(spec, assignment, 0, {}))));
}

TEST_CASE("the worker environment of a later node counts from its base rank") {
  Assignment assignment{.round = 4,
                        .restart_count = 0,
                        .node_rank = 1,
                        .nnodes = 2,
                        .base_rank = 8,
                        .world_size = 10,
                        .base_role_rank = 8,
                        .role_world_size = 10,
                        .master_addr = "node0",
                        .master_port = 40001};
  Environment env = worker_env(two_workers(), assignment, 0, {});
  test::check_golden("env/two_nodes_rank8.txt", text_of(apply({}, env)));
}

TEST_CASE("the contract wins over extra_env, and no name occurs twice") {
  JobSpec spec = two_workers();
  spec.extra_env = {{"RANK", "77"}, {"MINE", "1"}, {"MINE", "2"}};
  Environment env = worker_env(spec, {}, 1, {});
  std::map<std::string, std::string> seen;
  for (const auto& [name, value] : env) CHECK(seen.emplace(name, value).second);
  CHECK(seen["RANK"] == "1");
  CHECK(seen["MINE"] == "2");
}

TEST_CASE("apply replaces, keeps order, and fills defaults only where unset") {
  CHECK(apply({"A=1", "B=2", "odd", "B=again", "C="}, {{"B", "3"}}, {}) ==
        std::vector<std::string>{"A=1", "odd", "C=", "B=3"});
  CHECK(apply({"A=1"}, {{"B", "2"}}, {{"A", "d"}, {"B", "d"}, {"C", "d"}}) ==
        std::vector<std::string>{"A=1", "B=2", "C=d"});
  CHECK(apply({"TORCH_NCCL_ASYNC_ERROR_HANDLING=0"}, {}) ==
        std::vector<std::string>{"TORCH_NCCL_ASYNC_ERROR_HANDLING=0"});
}

TEST_CASE("arguments carry the local rank") {
  CHECK(substitute_local_rank("--device=cuda:${local_rank}", 3) == "--device=cuda:3");
  CHECK(substitute_local_rank("$HOME/$local_rank", 0) == "$HOME/0");
  CHECK(substitute_local_rank("kill $$; echo $$local_rank", 0) == "kill $$; echo $$local_rank");
  CHECK(substitute_local_rank("kill $$", 0, DoubleDollar::collapse) == "kill $");
}

}  // namespace dtrain::launcher
