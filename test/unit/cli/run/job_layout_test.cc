// What dtrain plan prints.
#include "cli/run/job_layout.h"

#include <nlohmann/json.hpp>

#include "cli/engines/hosts.h"
#include "test/support/catch.h"
#include "test/support/golden.h"
#include "test/unit/cli/test_host.h"

using namespace dtrain;
using namespace dtrain::cli;
using Catch::Contains;

namespace {

Host planner(int gpus) {
  Host host = test_host({{"./train", executable_file()}});
  host.gpus = [gpus] {
    GpuInventory inventory;
    inventory.gpus.resize(static_cast<std::size_t>(gpus));
    return inventory;
  };
  host.read_text = [](const std::string& path) {
    return path == "/proc/meminfo" ? Result<std::string>("MemTotal:       33554432 kB\nMemFree: 1 kB\n")
                                   : Result<std::string>(Error{ErrorKind::usage, "no such file"});
  };
  return host;
}

RawOptions typed(std::vector<std::string> words) {
  words.emplace_back("./train");
  auto raw = parse(words);
  REQUIRE(raw.ok());
  return std::move(*raw);
}

JobLayout here(const std::vector<std::string>& words, int gpus = 0) {
  const Host host = planner(gpus);
  const auto plan = resolve(typed(words), host);
  INFO((plan ? "" : plan.error().message));
  REQUIRE(plan.ok());
  return layout_here(*plan, host);
}

JobLayout on_hosts(const std::vector<std::string>& words) {
  const Host host = planner(0);
  const RawOptions raw = typed(words);
  const Options options(raw, host);
  const auto request = hosts_that_count(raw, options, host);
  REQUIRE(request.ok());
  REQUIRE(request->has_value());
  return layout_on_hosts(**request, options);
}

ClusterRequest cluster_of(const std::vector<std::string>& words, const Host& host, const RawOptions& raw) {
  auto request = cluster_that_counts(raw, Options(raw, host), host);
  INFO(words.size());
  REQUIRE(request.ok());
  REQUIRE(request->has_value());
  return std::move(**request);
}

}  // namespace

TEST_CASE("plan: the layouts are as reviewed") {
  std::string said;
  const auto add = [&](const char* title, const JobLayout& layout) {
    said += std::string("# ") + title + "\n" + layout_text(layout) + "\n";
  };
  add("two GPUs, auto", here({"--num-proc=auto", "--max-restarts=3", "--log-dir=/tmp", "--strategy=fsdp"}, 2));
  add("more workers than GPUs", here({"--nproc=3"}, 2));
  add("GPUs hidden", here({"--nproc=auto", "--use-gpu=no"}, 2));
  add("a node of several", here({"--nnodes=2:4", "--nproc=2", "--rdzv-endpoint=127.0.0.1:1234"}));
  add("hosts with slots", on_hosts({"-H", "a:2,b:4", "-np", "5"}));
  add("hosts that count their GPUs", on_hosts({"-H", "a,b", "-np", "auto"}));
  add("hosts that may be missing", on_hosts({"-H", "a:2,b:2", "--nnodes=1:2"}));
  const Host host = planner(0);
  const std::vector<std::string> words = {"--engine=ray", "-np", "5", "--resources-per-worker=CPU=2,GPU=1,memory=1e9"};
  const RawOptions raw = typed(words);
  const launcher::ShimPlaced placed{
      {{"10.0.0.1", 4, {{"CPU", 8}, {"GPU", 4}, {"memory", 4e9}}}, {"10.0.0.2", 1, {{"CPU", 2}, {"GPU", 1}}}}};
  add("Ray", layout_on_cluster(cluster_of(words, host, raw), placed, Options(raw, host)));
  Host login = planner(0);
  login.env = {{"SLURM_JOB_NUM_NODES", "2"}, {"SLURM_JOB_NODELIST", "n[1-2]"}};
  const RawOptions step = typed({"--engine=slurm", "-np", "4"});
  add("SLURM", layout_of_step(Options(step, login), login, 2));
  login.env.clear();
  const RawOptions later = typed({"--engine=slurm", "--nproc=gpu"});
  add("SLURM without an allocation", layout_of_step(Options(later, login), login, std::nullopt));
  test::check_golden("cli/plan.txt", said);
}

TEST_CASE("plan: JSON has the same") {
  const std::string text = layout_json(here({"--num-proc=auto", "--max-restarts=3"}, 2));
  test::check_golden("cli/plan.json", text);
  const auto json = nlohmann::json::parse(text);
  CHECK(json["layout"][0]["workers"] == 2);
  CHECK(json["layout"][0]["memory"] == 34359738368);
  CHECK(json["settings"]["restarts"]["origin"] == "flag");
  CHECK(nlohmann::json::parse(layout_json(on_hosts({"-H", "a,b", "-np", "auto"})))["layout"][0]["workers"].is_null());
}
