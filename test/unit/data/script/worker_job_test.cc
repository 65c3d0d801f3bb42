#include "data/script/worker_job.h"

#include "data/script/script_job.h"
#include "test/support/catch.h"

using namespace dtrain::data;
using Json = nlohmann::json;

namespace {

std::optional<WorkerJob> job_of(const Json& dataset, const Json& more) {
  Json request = {{"dataset", dataset}, {"dtrain", "/opt/bin/dtrain"}};
  request.update(more);
  return worker_job_of(request);
}

}  // namespace

TEST_CASE("workers of native: one process does all unless there are several nodes or workers") {
  const Json nodes = {{"nodes", {"--hosts=a,b", "--nproc=1"}}};
  CHECK_FALSE(job_of(Json::object(), Json::object()));
  CHECK_FALSE(job_of({{"num_workers", 1}}, Json::object()));
  CHECK_FALSE(job_of({{"num_workers", 1}}, nodes));
  CHECK_FALSE(job_of({{"num_workers", 4}, {"processor", "dask"}}, nodes));
  CHECK(job_of({{"num_workers", nullptr}}, nodes));
  const auto here = job_of({{"num_workers", 3}}, Json::object());
  REQUIRE(here);
  CHECK(here->workers == 3);
}

TEST_CASE("workers of native: the job that they are of") {
  using Words = std::vector<std::string>;
  const Words end = {"--max-restarts=3", "--shutdown-timeout=5", "--use-gpu=no", "--quiet",
                     "--no-python",      "/opt/bin/dtrain-data", "work",         "/cache/F"};
  const auto words = [&](Words begin) {
    begin.insert(begin.end(), end.begin(), end.end());
    return begin;
  };
  CHECK(worker_job_words({"/opt/bin/dtrain", {}, 3}, "/cache/F") ==
        words({"/opt/bin/dtrain", "run", "--engine=local", "--nnodes=1", "--nproc=3"}));
  const Words nodes = {"--hosts=a,b", "--nproc=1"};
  CHECK(worker_job_words({"/opt/bin/dtrain", nodes, {}}, "/cache/F") ==
        words({"/opt/bin/dtrain", "run", "--hosts=a,b", "--nproc=1"}));
}

TEST_CASE("workers of native: they are as many as were asked for, evenly on the nodes") {
  using Words = std::vector<std::string>;
  struct Row {
    Words nodes;
    std::optional<std::int64_t> workers;
    Words words;
    std::size_t on_a_host;
    std::string note{};
  };
  const Words local, hosts = {"--hosts=a,b,c", "--ssh=ssh -p 22", "--nproc=1"};
  const Words some = {"--hosts=a,b,c", "--nnodes=2:3", "--nproc=1"};
  const Words slurm = {"--engine=slurm", "--srun=-c 8", "--nnodes=3", "--nproc=1"};
  const Words range = {"--engine=ray", "--nnodes=2:4", "--nproc=1"}, ray = {"--engine=ray", "--num-proc=auto"};
  const Words open = {"--engine=slurm", "--srun=-N 2", "--nproc=1"};
  const Words spark = {"--engine=spark", "--nnodes=3", "--nproc=1"};
  const Words addresses = {"--hosts=me@[fe80::1],[fe80::2]", "--nproc=1"};
  const Row rows[] = {
      {local, 3, {"--engine=local", "--nnodes=1", "--nproc=3"}, 3},
      {hosts, {}, hosts, 1},
      {hosts, 2, {"--ssh=ssh -p 22", "--hosts=a:1,b:1"}, 1},
      {hosts, 3, {"--ssh=ssh -p 22", "--hosts=a:1,b:1,c:1"}, 1},
      {hosts, 5, {"--ssh=ssh -p 22", "--hosts=a:2,b:2,c:1"}, 2},
      {hosts, 6, {"--ssh=ssh -p 22", "--hosts=a:2,b:2,c:2"}, 2},
      {some, 4, {"--hosts=a:2,b:1,c:1", "--nnodes=2:3"}, 2},
      {some, 2, {"--hosts=a:1,b:1"}, 1},
      {slurm, {}, slurm, 1},
      {slurm, 2, {"--engine=slurm", "--srun=-c 8", "--nnodes=2", "--nproc=1"}, 1},
      {slurm, 6, {"--engine=slurm", "--srun=-c 8", "--nnodes=3", "--nproc=2"}, 2},
      {slurm,
       4,
       {"--engine=slurm", "--srun=-c 8", "--nnodes=3", "--nproc=2"},
       2,
       "backend.processor.num_workers: each node has 2 of the 4 processes, which cannot be divided evenly among 3 "
       "nodes: there are 6"},
      {open, 4, {"--engine=slurm", "--srun=-N 2", "--num-proc=4"}, 4},
      {range,
       3,
       {"--engine=ray", "--nnodes=2:3", "--nproc=1"},
       1,
       "backend.processor.num_workers: each node has 1 of the 3 processes, so that 2 to 3 nodes have 2 to 3"},
      {range,
       8,
       {"--engine=ray", "--nnodes=2:4", "--nproc=2"},
       2,
       "backend.processor.num_workers: each node has 2 of the 8 processes, so that 2 to 4 nodes have 4 to 8"},
      {range, 2, {"--engine=ray", "--nnodes=2", "--nproc=1"}, 1},
      {ray, {}, ray, 1},
      {ray, 4, {"--engine=ray", "--num-proc=4"}, 4},
      {spark, {}, spark, 3},
      {spark, 6, {"--engine=spark", "--nnodes=3", "--nproc=2"}, 6},
      {addresses, 3, {"--hosts=me@[fe80::1]:2,[fe80::2]:1"}, 2},
  };
  for (const Row& row : rows) {
    const WorkerSpread spread = spread_of({"/opt/bin/dtrain", row.nodes, row.workers});
    CAPTURE(row.nodes, row.workers.value_or(0));
    CHECK(spread.words == row.words);
    CHECK(spread.on_a_host == row.on_a_host);
    CHECK(spread.note == row.note);
  }
}

TEST_CASE("workers of native: what tells how nodes meet goes along, and flags of the job that wants the data do not") {
  CHECK(data_job_environment({{"DTRAIN_NPROC", "8"}, {"DTRAIN_MUNGE_SOCKET", "/m"}, {"PATH", "/bin"}}) ==
        std::map<std::string, std::string>{{"DTRAIN_MUNGE_SOCKET", "/m"}, {"PATH", "/bin"}});
}
