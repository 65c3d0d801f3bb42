// --strategy: words, JSON and files, checked before a worker starts.
#include <map>

#include "cli/resolve/resolve.h"
#include "test/support/catch.h"
#include "test/unit/cli/resolve/plan_of_flags.h"
#include "test/unit/cli/test_host.h"

using namespace dtrain;
using namespace dtrain::cli;
using Catch::Matchers::Contains;
using Words = std::vector<std::string>;

namespace {

Host with_files(std::map<std::string, std::string> files) {
  Host host = test_host();
  host.read_text = [files = std::move(files)](const std::string& path) -> Result<std::string> {
    const auto found = files.find(path);
    if (found == files.end()) return Error{ErrorKind::usage, "the file cannot be read: No such file or directory"};
    return found->second;
  };
  return host;
}

Result<Plan> with_strategy(const std::string& text, const Host& host, Words flags = {}) {
  flags.push_back("--strategy=" + text);
  return plan_or_error(flags, host);
}

std::string strategy(const std::string& text, const Host& host = test_host(), const Words& flags = {}) {
  auto answer = with_strategy(text, host, flags);
  INFO((answer ? "" : answer.error().message));
  REQUIRE(answer.ok());
  return answer->spec.strategy;
}

std::string why(const std::string& text, const Host& host = test_host(), const Words& flags = {}) {
  auto answer = with_strategy(text, host, flags);
  if (answer) return "accepted";
  CHECK(answer.error().kind == ErrorKind::usage);
  return answer.error().message;
}

}  // namespace

TEST_CASE("a strategy is passed on as it was typed, and an unknown one is an error") {
  CHECK(strategy("fsdp") == "fsdp");
  const std::string json = R"({"type": "zero2", "bucket_bytes": 7})";
  CHECK(strategy(json) == json);
  CHECK(why("zero9") == "--strategy 'zero9': type 'zero9' is not known; one of ddp, zero1, zero2, fsdp");
  CHECK_THAT(why("{"), Contains("is no JSON"));
  CHECK_THAT(why("[]"), Contains("'[]': it '[]' must be a word"));
  CHECK_THAT(why(R"({"type": "fsdp", "prefetc": 2})"), Contains("fsdp does not have the key 'prefetc'"));
}

TEST_CASE("the variable counts as the flag does") {
  Host host = test_host();
  host.env["DTRAIN_STRATEGY"] = "zero1";
  auto raw = parse(Words{"true"});
  REQUIRE(raw.ok());
  auto plan = resolve(*raw, host);
  REQUIRE(plan.ok());
  CHECK(plan->spec.strategy == "zero1");
  CHECK(strategy("fsdp", host) == "fsdp");
}

TEST_CASE("a loader that is said to be nothing hides the variable") {
  Host host = test_host();
  const auto loader = [&](const Words& flags) {
    const auto plan = plan_or_error(flags, host);
    REQUIRE(plan.ok());
    return plan->spec.loader;
  };
  CHECK(loader({"--loader="}).empty());
  host.env["DTRAIN_LOADER"] = R"({"fully_executed": true})";
  CHECK(loader({}) == R"({"fully_executed":true})");
  CHECK(loader({"--loader="}) == "{}");
}

TEST_CASE("a strategy may be a file of JSON, which is passed on without white space") {
  const Host host =
      with_files({{"ds.json", "{\n  \"zero_optimization\": {\"stage\": 3},\n  \"bf16\": {\"enabled\": true}\n}\n"},
                  {"conf/empty", "\n"},
                  {"fsdp.yaml", "fsdp_config:\n  fsdp_version: 2\n"},
                  {"twice.json", R"({"train_batch_size": 4, "train_batch_size": 8})"},
                  {"long.json", R"({"fsdp_transformer_layer_cls_to_wrap": ")" + std::string(140'000, 'x') + "\"}"}});
  CHECK(strategy("ds.json", host) == R"({"zero_optimization":{"stage":3},"bf16":{"enabled":true}})");
  CHECK(why("ds2.json", host) == "--strategy 'ds2.json': the file cannot be read: No such file or directory");
  CHECK_THAT(why("conf/empty", host), Contains("the file is empty"));
  CHECK_THAT(why("fsdp.yaml", host), Contains("dtrain reads JSON, not YAML"));
  CHECK_THAT(why("twice.json", host), Contains("has a name twice"));
  CHECK_THAT(why("long.json", host), Contains("an environment variable of Linux at most 131055"));
}

TEST_CASE("what a config asks for is compared with the job's size, if it is known") {
  const std::string batch = R"({"train_batch_size": 9})";
  CHECK_THAT(why(batch, test_host(), {"--nproc=2"}),
             Contains("train_batch_size is 9, which gradient_accumulation_steps 1 x 2 ranks"));
  CHECK(strategy(batch, test_host(), {"--nproc=3"}) == batch);
  CHECK(strategy(batch, test_host(), {"--nproc=2", "--nnodes=1:2", "--rdzv-backend=c10d"}) == batch);
  CHECK_THAT(why(R"({"distributed_type": "MULTI_CPU", "num_processes": 4})", test_host(), {"--nproc=2"}),
             Contains("num_processes is 4, and the job has 2 ranks"));
}

TEST_CASE("a program in Python does not read the strategy, and a note says so") {
  Host host = test_host({{"train.py", plain_file()}, {"script", executable_file("#!/usr/bin/python3\n")}});
  const auto notes = [&](const Words& words) {
    auto raw = parse(words);
    REQUIRE(raw.ok());
    auto plan = resolve(*raw, host);
    REQUIRE(plan.ok());
    return plan->notes;
  };
  const std::string of_flag = "no effect: --strategy is for C++ programs with dtrain::Parallel, and ";
  CHECK(notes({"--strategy=fsdp", "train.py"}) == Words{of_flag + "train.py runs in Python"});
  CHECK(notes({"--strategy=fsdp", "./script"}) == Words{of_flag + "./script runs in Python"});
  CHECK(notes({"--strategy=fsdp", "/usr/bin/python3", "-u", "x.py"}) ==
        Words{of_flag + "/usr/bin/python3 runs in Python"});
  CHECK(notes({"--strategy=fsdp", "true"}).empty());
  CHECK(notes({"train.py"}).empty());
  host.env["DTRAIN_STRATEGY"] = "zero1";
  CHECK(notes({"train.py"}) ==
        Words{"no effect: DTRAIN_STRATEGY is for C++ programs with dtrain::Parallel, and train.py runs in Python"});
}
