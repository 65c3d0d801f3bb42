// --config among flags, environment and defaults.
#include "cli/config/take_config.h"

#include <fmt/format.h>

#include "cli/engines/cluster.h"
#include "cli/engines/hosts.h"
#include "cli/engines/sent_words.h"
#include "cli/engines/srun.h"
#include "cli/resolve/resolve.h"
#include "test/support/catch.h"
#include "test/unit/cli/test_host.h"

using namespace dtrain;
using namespace dtrain::cli;
using Catch::Contains;

namespace {

using Variables = std::map<std::string, std::string>;

Host host_with_config(const std::string& text, const Variables& env = {}) {
  Host host = test_host();
  host.env.insert(env.begin(), env.end());
  host.read_text = [text](const std::string& path) {
    return path == "job.yaml" ? Result<std::string>(text)
                              : Result<std::string>(Error{ErrorKind::usage, "the file cannot be read: no such file"});
  };
  host.gpus = [] {
    GpuInventory inventory;
    inventory.gpus = {{"GPU-0", ""}, {"GPU-1", ""}};
    return inventory;
  };
  return host;
}

struct Taken {
  Result<std::vector<std::string>> notes;
  RawOptions raw;
};

Taken take(std::vector<std::string> words, const Host& host, CalledAs as = CalledAs::dtrain) {
  words.emplace_back("true");
  auto raw = parse(words, as);
  REQUIRE(raw.ok());
  auto notes = take_config(*raw, host);
  return {std::move(notes), std::move(*raw)};
}

RawOptions with_file(std::vector<std::string> words, const Host& host) {
  words.insert(words.begin(), "--config=job.yaml");
  auto taken = take(std::move(words), host);
  INFO((taken.notes ? "" : taken.notes.error().message));
  REQUIRE(taken.notes.ok());
  return std::move(taken.raw);
}

std::string why_not_taken(const std::vector<std::string>& words, const Host& host, CalledAs as = CalledAs::dtrain) {
  const auto taken = take(words, host, as);
  return taken.notes ? "fine" : taken.notes.error().message;
}

Plan plan_of(const std::string& text, const std::vector<std::string>& words = {}, const Variables& env = {}) {
  const Host host = host_with_config(text, env);
  auto plan = resolve(with_file(words, host), host);
  INFO((plan ? "" : plan.error().message));
  REQUIRE(plan.ok());
  return *plan;
}

std::string why_no_plan(const std::string& text, const std::vector<std::string>& words = {},
                        const Variables& env = {}) {
  const Host host = host_with_config(text, env);
  const auto plan = resolve(with_file(words, host), host);
  return plan ? "fine" : plan.error().message;
}

}  // namespace

TEST_CASE("a flag comes before a variable, that before the file, and that before the default") {
  const std::string file = "nproc: 2\nmax-restarts: 2\nrole: trainer\n";
  const Plan plan = plan_of(file, {"--nproc=4"}, {{"PET_MAX_RESTARTS", "3"}});
  CHECK(plan.spec.nproc_per_node == 4);
  CHECK(plan.spec.max_restarts == 3);
  CHECK(plan.spec.role == "trainer");
  const auto origin = [&](const std::string& flag) {
    for (const Setting& setting : plan.settings)
      if (setting.flag == flag) return setting.origin;
    return std::string("<none>");
  };
  CHECK(origin("--nproc") == "flag");
  CHECK(origin("--max-restarts") == "PET_MAX_RESTARTS");
  CHECK(origin("--role") == "job.yaml:3: role");
  CHECK(origin("--tee") == "default");
  CHECK(origin("--config") == "flag");
}

TEST_CASE("an engine's own values come after the file's") {
  Host host = host_with_config("nproc: 2\n");
  host.place = launcher::AgentPlace{"ssh", "", "", "", "job-1", "8", ""};
  const auto plan = resolve(with_file({}, host), host);
  REQUIRE(plan.ok());
  CHECK(plan->spec.nproc_per_node == 2);
}

TEST_CASE("an error about a value of the file names its line") {
  CHECK_THAT(why_no_plan("\nnproc: 0\n"), Contains("job.yaml:2: nproc '0': expected a whole number"));
  CHECK_THAT(why_no_plan("backend:\n  trainer:\n    max_retries: -1\n"),
             Contains("job.yaml:3: backend.trainer.max_retries '-1': expected"));
  CHECK_THAT(why_no_plan("strategy: {type: zero9}\n"), Contains("job.yaml:1: strategy '"));
}

TEST_CASE("the file may be named by a variable, and is not read for torchrun") {
  const Host host = host_with_config("nproc: 2\n", {{"DTRAIN_CONFIG", "job.yaml"}});
  CHECK(take({}, host).raw[FlagId::nproc]->text == "2");
  CHECK_FALSE(take({}, host, CalledAs::torchrun).raw[FlagId::nproc]);
  CHECK(why_not_taken({"--config=job.yaml"}, host, CalledAs::torchrun) == "--config needs the name dtrain: dtrain run");
  CHECK(why_not_taken({"--config=none.yaml"}, host) == "--config 'none.yaml': the file cannot be read: no such file");
  CHECK_THAT(why_not_taken({"--config=-"}, host),
             Contains("--config '-': standard input is the workers'; name a file"));
}

TEST_CASE("a backend on the command line is an engine or a file") {
  const Host host = host_with_config("nproc: 2\n");
  CHECK(take({"--backend=ray"}, host).raw[FlagId::engine]->text == "ray");
  CHECK(take({"--backend", "job.yaml"}, host).raw[FlagId::nproc]->text == "2");
  const std::vector<std::string> both = {"--backend=ray", "--engine=local", "true"};
  CHECK(parse(both).error().message == "--backend and --engine say the same: leave out one of the two");
}

TEST_CASE("workers of the whole job are divided among its nodes") {
  struct Row {
    const char* text;
    std::vector<std::string> words;
    Variables env;
    int workers;
  };
  const std::vector<Row> rows = {{"num_processes: 4", {}, {}, 4},
                                 {"backend: {trainer: {num_workers: 4}}", {}, {}, 4},
                                 {"num_processes: 4\nnnodes: 2", {}, {}, 2},
                                 {"num_processes: 4\nnnodes: 2\nnproc: 2", {}, {}, 2},
                                 {"num_processes: 4", {"--nnodes=4"}, {}, 1},
                                 {"num_processes: 4", {}, {{"PET_NNODES", "2"}}, 2},
                                 {"num_processes: 4", {"--nproc=3"}, {}, 3},
                                 {"num_processes: 4", {"-np", "3"}, {}, 3},
                                 {"num_processes: 4", {}, {{"DTRAIN_NPROC", "5"}}, 5},
                                 {"num_processes: 4", {}, {{"DTRAIN_NUM_PROC", "5"}}, 5},
                                 {"nproc: 4", {"-np", "3"}, {}, 3},
                                 {"use_gpu: true\nbackend: {trainer: {use_gpu: true}}", {"-np", "1"}, {}, 1},
                                 {"num_processes: 4",
                                  {"--insecure"},
                                  {{"SLURM_JOB_ID", "7"},
                                   {"SLURM_STEP_ID", "0"},
                                   {"SLURM_STEP_NUM_NODES", "2"},
                                   {"SLURM_NODEID", "1"},
                                   {"SLURM_STEP_NODELIST", "n[1-2]"},
                                   {"SLURM_STEP_NUM_TASKS", "2"},
                                   {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
                                   {"SLURM_PROCID", "1"}},
                                  2}};
  for (const Row& row : rows) {
    INFO(row.text);
    CHECK(plan_of(row.text, row.words, row.env).spec.nproc_per_node == row.workers);
  }
  CHECK_FALSE(plan_of("num_processes: 4").spec.horovod);
  CHECK(plan_of("num_processes: 4", {"-np", "3"}).spec.horovod);
  CHECK_FALSE(plan_of("num_processes: 4", {"--nproc=3"}).spec.horovod);
  CHECK(why_no_plan("num_processes: 3\nnnodes: 2") ==
        "job.yaml:1: num_processes '3': these are no equal parts for 2 nodes; give each node its --nproc");
  CHECK_THAT(why_no_plan("num_processes: 3\nnnodes: 2:4"),
             Contains("job.yaml:1: num_processes '3': a job whose nodes come and go has no fixed number"));
  CHECK(why_no_plan("num_processes: 3\nnproc: 2") ==
        "job.yaml:1: num_processes '3': that is 3 for each node, and job.yaml:2: nproc says 2; leave out one of the "
        "two");
}

TEST_CASE("workers of the whole job go to the hosts of a list, and to a cluster") {
  const auto hosts = [](const std::string& text) {
    const Host host = host_with_config(text);
    const RawOptions raw = with_file({}, host);
    const auto request = hosts_that_count(raw, Options(raw, host), host);
    if (!request) return request.error().message;
    std::string found;
    for (const launcher::PlacedHost& each : (*request)->hosts)
      found += (found.empty() ? "" : " ") + each.name + ":" + std::to_string(each.slots);
    return found;
  };
  CHECK(hosts("num_processes: 6\nhosts: [a, b]\nnnodes: 2") == "a:3 b:3");
  CHECK(hosts("num_processes: 6\nhosts: [a, b]") == "a:3 b:3");
  CHECK(hosts("num_processes: 5\nhosts: ['a:2', 'b:4']") == "a:2 b:3");
  CHECK(hosts("num_processes: 4\nhosts: ['a:8', 'b:8']\nnnodes: 2") == "a:2 b:2");
  CHECK(hosts("num_processes: 5\nhosts: [a, b]") ==
        "job.yaml:1: num_processes '5': these are no equal parts for 2 nodes; give each node its --nproc");
  CHECK(hosts("num_processes: 7\nhosts: ['a:2', 'b:4']") == "job.yaml:1: num_processes '7': the hosts have 6 slots");
  const Host host = host_with_config("backend: {type: ray, trainer: {num_workers: 4}}\nnnodes: 2");
  const RawOptions raw = with_file({}, host);
  const auto cluster = cluster_that_counts(raw, Options(raw, host), host);
  REQUIRE(cluster.ok());
  CHECK((*cluster)->nodes.workers == "2");
  CHECK((*cluster)->nodes.all.empty());
}

TEST_CASE("a cluster chooses its nodes for the workers of a job") {
  const auto asked = [](const std::string& text, const std::vector<std::string>& words = {}) {
    const Host host = host_with_config(text);
    const RawOptions raw = with_file(words, host);
    const auto cluster = cluster_that_counts(raw, Options(raw, host), host);
    if (!cluster) return cluster.error().message;
    const launcher::ShimRequest& nodes = (*cluster)->nodes;
    return fmt::format("{}:{} '{}' '{}'{}", nodes.least, nodes.most, nodes.workers, nodes.all,
                       (*cluster)->placement.elastic ? " elastic" : "");
  };
  CHECK(asked("backend: ray") == "1:65536 '' 'auto'");
  CHECK(asked("backend: spark") == "1:65536 '' 'auto'");
  CHECK(asked("backend: ray\nnnodes: 2") == "2:2 '' ''");
  CHECK(asked("backend: ray\nnnodes: '2:4'") == "2:4 '' '' elastic");
  CHECK(asked("backend: {type: ray, trainer: {num_workers: 6}}") == "1:6 '' '6'");
  CHECK(asked("backend: {type: spark, trainer: {num_workers: 6}}") == "1:6 '' '6'");
  CHECK(asked("backend: ray", {"--nproc=2"}) == "1:1 '2' ''");
  CHECK(asked("nproc: 2", {"--engine=ray", "-np", "4"}) == "1:4 '' '4'");
  CHECK(asked("role: r", {"--engine=ray", "-np", "x"}) ==
        "-np 'x': expected a whole number from 1 to 999999999, or auto");
  CHECK(asked("role: r", {"--engine=ray", "-np", "auto", "--nproc=2"}) ==
        "-np 'auto': --nproc says how many workers a node has; leave out one of the two");
  CHECK(asked("nproc: 2\nbackend: {type: ray, trainer: {num_workers: 4}}\n") ==
        "job.yaml:2: backend.trainer.num_workers '4': that is 4 for each node, and job.yaml:1: nproc says 2; leave out "
        "one of the two");
}

TEST_CASE("what the file says goes to other nodes, which need no file") {
  const Host host =
      host_with_config("hosts: [a, b]\nmax-restarts: 2\nbackend:\n  trainer:\n    num_workers: 4\nnnodes: 2\n",
                       {{"DTRAIN_MAX_RESTARTS", "3"}, {"DTRAIN_CONFIG", "job.yaml"}});
  const RawOptions raw = with_file({"--role=r"}, host);
  const auto request = hosts_that_count(raw, Options(raw, host), host);
  REQUIRE(request.ok());
  REQUIRE(request->has_value());
  const launcher::AgentTask& task = (*request)->task;
  // The variable, which counts more, goes by itself; the file's name does not.
  CHECK(task.words == std::vector<std::string>{"--num-proc=4", "--role=r", "--nnodes=2", "--", "true"});
  CHECK(task.origins == std::map<std::string, std::string>{{"num-proc", "job.yaml:5: backend.trainer.num_workers"},
                                                           {"nnodes", "job.yaml:6: nnodes"}});
  const auto sent = environment_to_send(host, "");
  CHECK(sent.contains("DTRAIN_MAX_RESTARTS"));
  CHECK_FALSE(sent.contains("DTRAIN_CONFIG"));
  auto there = parse(task.words);
  REQUIRE(there.ok());
  take_origins(task.origins, *there);
  CHECK((*there)[FlagId::num_proc]->where == "job.yaml:5: backend.trainer.num_workers");
  CHECK((*there)[FlagId::role]->where == "--role");
  take_origins({{"no-such-flag", "x"}, {"tee", "x"}}, *there);
  CHECK_FALSE((*there)[FlagId::tee]);
}

TEST_CASE("srun's dtrain gets the file's values as flags") {
  Host host = host_with_config(
      "backend:\n  type: slurm\n  trainer: {num_workers: 8, max_retries: 1}\nnnodes: 2\n"
      "srun: -p gpu\nquiet: true\n");
  const auto probe = host.probe;
  host.probe = [probe](const std::string& path) { return path == "/usr/bin/srun" ? executable_file() : probe(path); };
  host.own_file = [] { return std::string("/opt/dtrain"); };
  const RawOptions raw = with_file({}, host);
  const auto words = srun_that_counts(raw, Options(raw, host), host);
  REQUIRE(words.ok());
  CHECK(**words == std::vector<std::string>{"srun", "--ntasks-per-node=1", "--mpi=none", "--nodes=2", "--wait=60",
                                            "--cpus-per-task=4", "-p", "gpu", "/opt/dtrain", "run", "--engine=slurm",
                                            "--num-proc=8", "--max-restarts=1", "--nnodes=2", "--quiet", "--", "true"});
  // An allocation's own number of nodes.
  host.env["SLURM_JOB_NUM_NODES"] = "4";
  const auto sized = [&](const std::string& text) {
    host.read_text = [text](const std::string&) { return Result<std::string>(text); };
    const RawOptions in_job = with_file({}, host);
    const auto made = srun_that_counts(in_job, Options(in_job, host), host);
    if (!made) return made.error().message;
    for (const std::string& word : **made)
      if (word.starts_with("--cpus-per-task=")) return word;
    return std::string();
  };
  CHECK(sized("engine: slurm\nnum_processes: 8\n") == "--cpus-per-task=2");
  CHECK(sized("engine: slurm\nnum_processes: 8\nsrun: -N 1\n").empty());
  CHECK(sized("engine: slurm\nnum_processes: 8\nnnodes: 1:2\n").empty());
  CHECK(sized("engine: slurm\nnum_processes: 7\n") ==
        "job.yaml:2: num_processes '7': these are no equal parts for 4 nodes; give each node its --nproc");
}

TEST_CASE("what a file says of another engine counts unless the command line chooses the engine") {
  const auto wanted = [](const std::string& text, const std::vector<std::string>& words) {
    const Host host = host_with_config(text);
    const RawOptions raw = with_file(words, host);
    const auto hosts = hosts_that_count(raw, Options(raw, host), host);
    if (!hosts) return hosts.error().message;
    return std::string(*hosts ? "ssh" : "here");
  };
  CHECK(wanted("hosts: [a, b]\n", {}) == "ssh");
  CHECK(wanted("hosts: [a, b]\n", {"--engine=local"}) == "here");
  CHECK(wanted("hosts: [a, b]\n", {"--node-rank=0"}) == "here");
  CHECK(wanted("hosts: [a, b]\n", {"--hostfile=none"}) == "--hostfile 'none': the file cannot be read: no such file");
  CHECK_THAT(wanted("hosts: [a, b]\nengine: ray\n", {}), Contains("job.yaml:1: hosts names hosts for ssh"));
  CHECK_THAT(wanted("include: a\n", {}), Contains("job.yaml:1: include chooses among hosts"));
  const auto srun = [](const std::string& text, const std::vector<std::string>& words) {
    const Host host = host_with_config(text);
    const RawOptions raw = with_file(words, host);
    const auto made = srun_that_counts(raw, Options(raw, host), host);
    return made ? std::string(*made ? "srun" : "here") : made.error().message;
  };
  CHECK(srun("srun: -p gpu\n", {}) == "job.yaml:1: srun is for --engine slurm: give that too");
  CHECK(srun("srun: -p gpu\n", {"--engine=local"}) == "here");
  const Plan plan = plan_of("backend: {type: local, trainer: {resources_per_worker: {CPU: 2}}}\n");
  REQUIRE(plan.notes.size() == 1);
  CHECK_THAT(plan.notes[0], Contains("resources_per_worker is for --engine ray or spark"));
}

TEST_CASE("workers find the loader of the file, on other nodes too") {
  const std::string file = "backend:\n  loader: {window_size_bytes: 8, fully_executed: false}\n";
  CHECK(plan_of(file).spec.loader == R"({"fully_executed":false,"window_size_bytes":8})");
  CHECK(plan_of(file, {R"(--loader={"window_size_bytes": "auto"})"}).spec.loader == R"({"window_size_bytes":"auto"})");
  CHECK_THAT(why_no_plan("loader: {window_size_bytes: 0}"),
             Contains("job.yaml:1: loader '{\"window_size_bytes\":0}': window_size_bytes: expected"));
  const Host host = host_with_config(file + "hosts: [a, b]\n");
  const RawOptions raw = with_file({}, host);
  const auto request = hosts_that_count(raw, Options(raw, host), host);
  REQUIRE(request.ok());
  const auto& words = (*request)->task.words;
  CHECK(std::count(words.begin(), words.end(), R"(--loader={"fully_executed":false,"window_size_bytes":8})") == 1);
}

TEST_CASE("use_gpu asks for a GPU for each worker, or hides them") {
  CHECK(plan_of("num_processes: 2\nuse_gpu: true\nlocal_mode: true\n").spec.nproc_per_node == 2);
  CHECK(plan_of("backend: {trainer: {use_gpu: true}}\n").spec.nproc_per_node == 2);
  CHECK(plan_of("backend: local\n").spec.nproc_per_node == 2);
  CHECK(plan_of("backend: {trainer: {use_gpu: false}}\n").spec.nproc_per_node == 1);
  CHECK(plan_of("backend: local\n", {}, {{"CUDA_VISIBLE_DEVICES", ""}}).spec.nproc_per_node == 1);
  CHECK(plan_of("backend: local\n", {"--nproc=3"}).spec.nproc_per_node == 3);
  CHECK(plan_of("backend: local\n", {"--nnodes=1"}, {{"PET_NPROC_PER_NODE", "3"}}).spec.nproc_per_node == 3);
  CHECK_THAT(why_no_plan("num_processes: 4\nuse_gpu: true\n"),
             Contains("job.yaml:2: use_gpu 'yes': this node has 2 usable GPUs for 4 workers"));
  CHECK_THAT(why_no_plan("backend: {trainer: {use_gpu: true}}\n", {}, {{"CUDA_VISIBLE_DEVICES", ""}}),
             Contains("use_gpu 'yes': this node has 0 usable GPUs for 1 worker"));
  const Host few = host_with_config("num_processes: 4\nuse_gpu: true\n");
  CHECK(resolve(with_file({}, few), few).error().kind == ErrorKind::unavailable);
  const auto hidden = plan_of("use_gpu: false\nnproc: auto\n");
  CHECK(hidden.spec.nproc_per_node == 8);
  CHECK(std::count(hidden.spec.extra_env.begin(), hidden.spec.extra_env.end(),
                   std::pair<std::string, std::string>("CUDA_VISIBLE_DEVICES", "")) == 1);
  CHECK_THAT(why_no_plan("use_gpu: false\nnproc: gpu\n"),
             Contains("job.yaml:1: use_gpu 'no': job.yaml:2: nproc needs"));
  CHECK_THAT(why_no_plan("role: r\n", {"--use-gpu=maybe"}), Contains("expected"));
}
