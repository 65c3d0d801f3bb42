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
  CHECK(here->on_a_host() == 3);
  CHECK(job_of({{"num_workers", 3}}, nodes)->on_a_host() == 2);
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
  CHECK(worker_job_words({"/opt/bin/dtrain", nodes, 4}, "/cache/F") ==
        words({"/opt/bin/dtrain", "run", "--hosts=a,b", "--nproc=2"}));
  const Words slots = {"--hosts=a:8,b:8", "--nproc=1"}, ray = {"--engine=ray", "--num-proc=auto"};
  CHECK(worker_job_words({"/opt/bin/dtrain", slots, 3}, "/cache/F") ==
        words({"/opt/bin/dtrain", "run", "--hosts=a:8,b:8", "--nproc=2"}));
  CHECK(WorkerJob{"/opt/bin/dtrain", slots, 3}.on_a_host() == 2);
  CHECK(worker_job_words({"/opt/bin/dtrain", ray, 4}, "/cache/F") ==
        words({"/opt/bin/dtrain", "run", "--engine=ray", "--num-proc=4"}));
}

TEST_CASE("workers of native: what tells how nodes meet goes along, and flags of the job that wants the data do not") {
  CHECK(data_job_environment({{"DTRAIN_NPROC", "8"}, {"DTRAIN_MUNGE_SOCKET", "/m"}, {"PATH", "/bin"}}) ==
        std::map<std::string, std::string>{{"DTRAIN_MUNGE_SOCKET", "/m"}, {"PATH", "/bin"}});
}
