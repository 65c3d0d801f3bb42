#include "data/script/script_job.h"

#include "test/support/catch.h"

namespace dtrain::data {
namespace {

using Words = std::vector<std::string>;

ScriptJob job_of(const std::string& dataset, const std::string& rest = "") {
  const auto request = nlohmann::json::parse(R"({"dtrain": "/bin/dtrain", "dataset": {"input": ["a.parquet"], )" +
                                             dataset + "}" + rest + "}");
  const auto job = script_job_of(request);
  REQUIRE(job);
  return *job;
}

Words placing(const ScriptJob& job) {
  Words words = script_job_words(job, "/c/input", "/c/rows");
  REQUIRE(words.size() > 2);
  CHECK(Words(words.begin(), words.begin() + 2) == Words{"/bin/dtrain", "run"});
  return {words.begin() + 2, words.begin() + 5};
}

}  // namespace

TEST_CASE("script: a data set without a processor has no job") {
  CHECK(!script_job_of(nlohmann::json::parse(R"({"dataset": {"input": ["a"], "parallelism": 3}})")));
}

TEST_CASE("script: where its workers are") {
  CHECK(placing(job_of(R"("processor": "dask", "script": "p.py")")) ==
        Words{"--engine=local", "--nnodes=1", "--nproc=cpu"});
  CHECK(placing(job_of(R"("processor": "dask", "script": "p.py")", R"(, "threads": 2)")) ==
        Words{"--engine=local", "--nnodes=1", "--nproc=2"});
  CHECK(placing(job_of(R"("processor": "python", "script": "p.py", "num_workers": 5)", R"(, "threads": 2)")) ==
        Words{"--engine=local", "--nnodes=1", "--nproc=5"});
  CHECK(placing(job_of(R"("processor": "modin", "script": "p.py")", R"(, "engine": "ray")")) ==
        Words{"--engine=ray", "--use-gpu=no", "--num-proc=auto"});
  CHECK(placing(job_of(R"("processor": "dask", "script": "p.py", "num_workers": 4)", R"(, "engine": "ray")")) ==
        Words{"--engine=ray", "--use-gpu=no", "--num-proc=4"});
  for (const char* engine : {"local", "auto", "slurm", "spark"})
    CHECK(
        placing(job_of(R"("processor": "dask", "script": "p.py")", std::string(R"(, "engine": ")") + engine + "\"")) ==
        Words{"--engine=local", "--nnodes=1", "--nproc=cpu"});
  CHECK(placing(job_of(R"("processor": "ray", "script": "p.py")", R"(, "engine": "ray", "threads": 9)")) ==
        Words{"--engine=local", "--nnodes=1", "--nproc=1"});
}

TEST_CASE("script: what is started, and how often") {
  const Words words = script_job_words(job_of(R"("processor": "python", "script": "p.py")"), "/c/input", "/c/rows");
  CHECK(Words(words.begin() + 5, words.end()) == Words{"--max-restarts=3", "--shutdown-timeout=5", "--quiet", "-m",
                                                       "dtrain_data", "process", "p.py", "@/c/input", "/c/rows"});
  const Words dask = script_job_words(job_of(R"("processor": "dask", "script": "p.py")"), "/c/input", "/c/rows");
  CHECK(dask[5] == "--max-restarts=0");
  CHECK(dask[10] == "dask");
}

TEST_CASE("script: variables of the job that wants the data set do not count for it") {
  const std::map<std::string, std::string> env = {
      {"DTRAIN_CONFIG", "job.yaml"},   {"PET_NPROC_PER_NODE", "8"},
      {"DTRAIN_ENGINE_PYTHON", "/p"},  {"DTRAIN_STORE_CREDENTIALS", "/keys"},
      {"DTRAIN_STORE_TIMEOUT_S", "2"}, {"RAY_ADDRESS", "auto"},
      {"PYTHONPATH", "/own"}};
  const auto plain = script_job_environment(job_of(R"("processor": "dask", "script": "p.py")"), env, "", "/c/k");
  CHECK(plain == std::map<std::string, std::string>{{"DTRAIN_ENGINE_PYTHON", "/p"},
                                                    {"DTRAIN_STORE_CREDENTIALS", "/keys"},
                                                    {"DTRAIN_STORE_TIMEOUT_S", "2"},
                                                    {"RAY_ADDRESS", "auto"},
                                                    {"PYTHONPATH", "/own"}});
  const auto set = script_job_environment(
      job_of(R"("processor": "dask", "script": "p.py", "parallelism": 7, "persist": false)"), env, "/modules", "/c/k");
  CHECK(set.at("DTRAIN_PARALLELISM") == "7");
  CHECK(set.at("DTRAIN_PERSIST") == "false");
  CHECK(set.at("PYTHONPATH") == "/modules:/own");
  const ScriptJob on_ray = job_of(R"("processor": "dask", "script": "p.py")", R"(, "engine": "ray")");
  CHECK(script_job_environment(on_ray, env, "", "/c/k").at("DTRAIN_DATA_BUILD") == "/c/k");
}

TEST_CASE("script: what is another entry of the cache") {
  const auto key = [](const std::string& dataset, const std::string& sha256) {
    return key_of_script(job_of(dataset), sha256);
  };
  const std::string dask = R"("processor": "dask", "script": "p.py")";
  CHECK(key(dask, "a") != key(dask, "b"));
  CHECK(key(dask, "a") != key(R"("processor": "modin", "script": "p.py")", "a"));
  CHECK(key(dask, "a") == key(R"("processor": "dask", "script": "q.py", "num_workers": 3, "persist": true)", "a"));
  CHECK(key(dask, "a") != key(dask + R"(, "parallelism": 3)", "a"));
  const std::string python = R"("processor": "python", "script": "p.py")";
  CHECK(key(python, "a") == key(python + R"(, "parallelism": 3)", "a"));
  const auto recipe = nlohmann::json::parse(R"({"input": ["a"], "processor": 1, "script": 2, "num_workers": 3})");
  CHECK(without_script(recipe) == nlohmann::json::parse(R"({"input": ["a"]})"));
}

TEST_CASE("script: it reads Parquet alone") {
  const auto other = [](const char* recipe, const Words& files) {
    return not_parquet(nlohmann::json::parse(recipe), files);
  };
  CHECK(!other("{}", {"a.parquet", "b.parquet"}));
  CHECK(other("{}", {"a.parquet", "b.csv"}) == "b.csv");
  CHECK(!other(R"({"format": "parquet"})", {"a.data"}));
  CHECK(other(R"({"format": "csv"})", {"a.data"}) == "a.data");
  CHECK(!other(R"({"format": null})", {"a.parquet"}));
}

}  // namespace dtrain::data
