// What a worker reads from its environment, and the one clear line where it makes no sense.
#include "dtrain/worker_env.h"

#include "test/support/catch.h"
#include "test/unit/strategies/variables.h"

using namespace dtrain;
using namespace dtrain::test;

namespace {

WorkerEnv parse(const Variables& variables) { return parse_worker_env(lookup_in(variables)); }

std::string refusal(const Variables& variables) {
  try {
    parse(variables);
  } catch (const ConfigError& error) {
    CHECK_THAT(error.what(), Catch::StartsWith("dtrain: "));
    return error.what();
  }
  return "";
}

Variables launched() {
  return {{"RANK", "3"},
          {"WORLD_SIZE", "4"},
          {"LOCAL_RANK", "1"},
          {"LOCAL_WORLD_SIZE", "2"},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", "29500"}};
}

Variables with(const std::string& name, const std::string& value) {
  Variables variables = launched();
  variables[name] = value;
  return variables;
}

}  // namespace

TEST_CASE("without a launcher the world is this process") {
  const WorkerEnv env = parse({});
  CHECK_FALSE(env.launched);
  CHECK(env.rank == 0);
  CHECK(env.world_size == 1);
  CHECK(env.local_world_size == 1);
}

TEST_CASE("a launcher's environment is read whole") {
  Variables variables = launched();
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  variables["TORCHELASTIC_RESTART_COUNT"] = "2";
  variables["TORCHELASTIC_RUN_ID"] = "abc";
  const WorkerEnv env = parse(variables);
  CHECK(env.launched);
  CHECK(env.rank == 3);
  CHECK(env.world_size == 4);
  CHECK(env.local_rank == 1);
  CHECK(env.local_world_size == 2);
  CHECK(env.master_addr == "127.0.0.1");
  CHECK(env.master_port == 29500);
  CHECK(env.agent_store);
  CHECK(env.restart_count == 2);
  CHECK(env.run_id == "abc");
}

TEST_CASE("ranks started by hand need no local rank") {
  const WorkerEnv env = parse({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "1"}});
  CHECK(env.local_rank == 1);
  CHECK(env.local_world_size == 2);
  CHECK_FALSE(env.agent_store);
}

TEST_CASE("an environment that makes no sense is refused with the variable's name") {
  CHECK_THAT(refusal({{"RANK", "0"}}), Catch::Contains("RANK is set but WORLD_SIZE is not"));
  CHECK_THAT(refusal({{"WORLD_SIZE", "2"}}), Catch::Contains("WORLD_SIZE is set but RANK is not"));
  CHECK_THAT(refusal(with("RANK", "4")), Catch::Contains("RANK=4 must be below WORLD_SIZE=4"));
  CHECK_THAT(refusal(with("RANK", "-1")), Catch::Contains("RANK='-1'"));
  CHECK_THAT(refusal(with("RANK", "1x")), Catch::Contains("RANK='1x'"));
  CHECK_THAT(refusal(with("WORLD_SIZE", "99999999999")), Catch::Contains("WORLD_SIZE='99999999999'"));
  CHECK_THAT(refusal(with("LOCAL_RANK", "2")), Catch::Contains("LOCAL_RANK=2"));
  CHECK_THAT(refusal(with("LOCAL_WORLD_SIZE", "5")), Catch::Contains("LOCAL_WORLD_SIZE=5"));
  CHECK_THAT(refusal(with("MASTER_PORT", "70000")), Catch::Contains("MASTER_PORT='70000'"));
  CHECK_THAT(refusal(with("MASTER_ADDR", "")), Catch::Contains("MASTER_ADDR is not set"));
}

TEST_CASE("the strategy is a name or JSON, and an unknown one is an error") {
  CHECK(parse(with("DTRAIN_STRATEGY", "")).strategy == Strategy{});
  CHECK(parse(with("DTRAIN_STRATEGY", "fsdp")).strategy.kind == StrategyKind::fsdp);
  CHECK(parse(with("DTRAIN_STRATEGY", R"({"type": "zero1", "bucket_bytes": 7})")).strategy.bucket_bytes == 7);
  CHECK_THAT(refusal(with("DTRAIN_STRATEGY", "zero9")), Catch::Contains("'zero9' is not known"));
}

TEST_CASE("the launcher's memory of the state, and the round, are read") {
  CHECK(parse({}).state_fd == -1);
  CHECK(parse(with("DTRAIN_STATE_FD", "")).state_fd == -1);
  CHECK(parse(with("DTRAIN_STATE_FD", "100")).state_fd == 100);
  CHECK(parse({}).state_copy_fd == -1);
  CHECK(parse(with("DTRAIN_STATE_COPY_FD", "101")).state_copy_fd == 101);
  CHECK(parse({}).group_rank == 0);
  CHECK(parse(with("GROUP_RANK", "3")).group_rank == 3);
  CHECK(parse(with("DTRAIN_ROUND", "7")).round == 7);
  CHECK_THAT(refusal(with("DTRAIN_STATE_FD", "-1")), Catch::Contains("DTRAIN_STATE_FD='-1' is not a whole number"));
}
