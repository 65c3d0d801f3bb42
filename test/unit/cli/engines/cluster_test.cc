// --engine ray and --engine spark.
#include "cli/engines/cluster.h"

#include "cli/doctor/doctor.h"
#include "test/support/catch.h"
#include "test/unit/cli/engines/placed.h"

using namespace dtrain;
using namespace dtrain::cli;
using Catch::Contains;

namespace {

Host on_a_laptop(std::map<std::string, std::string> env = {}) {
  Host host = test_host({{"./train", executable_file()}});
  host.folder = [] { return std::string("/work"); };
  host.own_file = [] { return std::string("/opt/dtrain"); };
  host.env.insert(env.begin(), env.end());
  return host;
}

Result<std::optional<ClusterRequest>> on_cluster(std::vector<std::string> words, const Host& host = on_a_laptop(),
                                                 CalledAs as = CalledAs::dtrain) {
  words.insert(words.end(), {"./train", "--lr=1"});
  const auto raw = parse(words, as);
  return cluster_that_counts(*raw, Options(*raw, host), host);
}

ClusterRequest cluster_for(std::vector<std::string> words, const Host& host = on_a_laptop()) {
  auto request = on_cluster(std::move(words), host);
  INFO((request ? "" : request.error().message));
  REQUIRE(request.ok());
  REQUIRE(request->has_value());
  return std::move(**request);
}

std::string no_cluster(std::vector<std::string> words, const Host& host = on_a_laptop()) {
  const auto request = on_cluster(std::move(words), host);
  return request ? request->has_value() ? "a cluster" : "none" : request.error().message;
}

}  // namespace

TEST_CASE("a cluster gets the nodes, the workers and the words") {
  const auto request = cluster_for({"--engine", "ray", "--nnodes", "3", "--nproc", "2", "-v"});
  CHECK(request.nodes.least == 3);
  CHECK(request.nodes.most == 3);
  CHECK(request.nodes.workers == "2");
  CHECK(request.nodes.resources.empty());
  CHECK(request.nodes.program == "/opt/dtrain");
  CHECK(request.placement.numbered);
  CHECK(request.placement.shares_hosts);
  CHECK_FALSE(request.placement.elastic);
  CHECK(request.placement.task.words ==
        std::vector<std::string>{"--nproc=2", "--nnodes=3", "--verbose", "--", "./train", "--lr=1"});
  CHECK(request.placement.task.folder == "/work");
  CHECK(request.placement.task.place == launcher::AgentPlace{"ray", "", "", "", "job-1a2b3c4d", ""});
}

TEST_CASE("whether workers need GPUs is what they take of a cluster, unless more is said") {
  using Resources = std::map<std::string, double>;
  const auto taken = [](std::vector<std::string> words) { return cluster_for(std::move(words)).nodes.resources; };
  CHECK(taken({"--engine", "ray", "--use-gpu=yes"}) == Resources{{"CPU", 1}, {"GPU", 1}});
  CHECK(taken({"--engine", "ray", "--use-gpu=no"}) == Resources{{"CPU", 1}});
  CHECK(taken({"--engine", "ray", "--use-gpu=auto"}).empty());
  CHECK(taken({"--engine", "ray", "--use-gpu=yes", "--resources-per-worker=CPU=2"}) ==
        Resources{{"CPU", 2}, {"GPU", 1}});
  CHECK(taken({"--engine", "ray", "--use-gpu=yes", "--resources-per-worker=GPU=2"}) == Resources{{"GPU", 2}});
  CHECK(taken({"--engine", "spark", "--use-gpu=yes", "--nproc=2"}) == Resources{{"GPU", 1}});
  CHECK(taken({"--engine", "spark", "--use-gpu=yes", "--nproc=gpu"}).empty());
  CHECK(taken({"--engine", "spark", "--use-gpu=no"}).empty());
  CHECK(no_cluster({"--engine", "ray", "--use-gpu=no", "--resources-per-worker=GPU=1"}) ==
        "--use-gpu contradicts --resources-per-worker; remove one of the two");
  CHECK_THAT(no_cluster({"--engine", "ray", "--use-gpu=yes", "--resources-per-worker=GPU=0"}), Contains("contradicts"));
}

TEST_CASE("without a word of nodes and workers, it is one node") {
  const auto request = cluster_for({"--engine", "ray"});
  CHECK(request.nodes.most == 1);
  CHECK(request.nodes.workers.empty());
}

TEST_CASE("a range of nodes is elastic") {
  const auto request = cluster_for({"--engine", "ray", "--nnodes", "2:5"});
  CHECK(request.nodes.least == 2);
  CHECK(request.nodes.most == 5);
  CHECK(request.placement.elastic);
  CHECK_FALSE(request.placement.numbered);
}

TEST_CASE("on Ray a range of nodes takes others for those that are lost, unless there is no TLS") {
  const auto request = cluster_for({"--engine", "ray", "--nnodes", "2:5", "--master-port", "4000"});
  CHECK(request.placement.grows);
  CHECK(request.placement.port == "4000");
  CHECK(request.placement.task.words == std::vector<std::string>{"--nnodes=2:5", "--", "./train", "--lr=1"});
  CHECK(request.placement.task.place.conf == "last_call_timeout=2");
  CHECK_FALSE(cluster_for({"--engine", "ray", "--nnodes", "2"}).placement.grows);
  CHECK_FALSE(cluster_for({"--engine", "ray", "--nnodes", "2:5", "--insecure"}).placement.grows);
  CHECK_FALSE(cluster_for({"--engine", "spark", "--nnodes", "2:5"}).placement.grows);
  CHECK_THAT(no_cluster({"--engine", "ray", "--nnodes", "2:5", "--master-port", "0"}), Contains("--master-port '0'"));
}

TEST_CASE("resources have names and numbers") {
  CHECK(cluster_for({"--engine", "ray", "--resources-per-worker", "CPU=0.5,GPU=2,tpu=1"}).nodes.resources ==
        std::map<std::string, double>{{"CPU", 0.5}, {"GPU", 2}, {"tpu", 1}});
  for (const char* text : {"CPU", "CPU=", "CPU=x", "CPU=-1", "=1", "CPU=1,,GPU=1", "CPU=nan", "CPU=1e999"})
    CHECK_THAT(no_cluster({"--engine", "ray", "--resources-per-worker", text}), Contains("is no NAME=NUMBER"));
  CHECK_THAT(no_cluster({"--engine", "ray", "--resources-per-worker", "GPU=0.5"}), Contains("is no whole number"));
  CHECK_THAT(no_cluster({"--engine", "ray", "--resources-per-worker", "CPU=1,CPU=2"}), Contains("is there twice"));
  CHECK_THAT(no_cluster({"--engine", "ray", "--resources-per-worker", "CPU=0.00001"}), Contains("is too little"));
  for (const char* text : {"0", "99999999999", "foo", "-1"})
    CHECK_THAT(no_cluster({"--engine", "ray", "--nproc", text}), Contains("--nproc"));
  CHECK_THAT(no_cluster({"--resources-per-worker", "CPU=1"}), Contains("is for --engine ray or spark"));
  Host told = on_a_laptop();
  told.env["DTRAIN_RESOURCES_PER_WORKER"] = "CPU";
  CHECK_THAT(no_cluster({}, told), Contains("is no NAME=NUMBER"));
}

TEST_CASE("the options of Spark are the shim's") {
  const auto request = cluster_for({"--engine", "spark", "--nnodes", "2", "--spark", "--master 'spark://a:1'"});
  CHECK(request.engine->title == "Spark");
  CHECK(request.nodes.options == "--master 'spark://a:1'");
  CHECK(request.placement.task.place.engine == "spark");
  CHECK(request.placement.task.words == std::vector<std::string>{"--nnodes=2", "--", "./train", "--lr=1"});
  CHECK_THAT(no_cluster({"--spark", "x"}), Contains("is for --engine spark"));
  CHECK_THAT(no_cluster({"--engine", "ray", "--spark", "x"}), Contains("does not go together with --engine ray"));
  CHECK_THAT(no_cluster({"--engine", "spark", "--standalone"}), Contains("--engine spark"));
}

TEST_CASE("secrets of Spark's are not for command lines") {
  for (const char* options :
       {"--conf spark.authenticate.secret=hush", "--conf 'spark.ssl.rpc.keyStorePassword=hush",
        "-c spark.ssl.keyPassword=hush", "--conf=spark.hadoop.fs.s3a.secret.key=hush",
        "--conf spark.executorEnv.AWS_SECRET_ACCESS_KEY=hush", "--conf spark.executorEnv.HF_TOKEN=hush",
        "--driver-java-options -Djavax.net.ssl.trustStorePassword=hush"}) {
    const std::string said = no_cluster({"--engine", "spark", std::string("--spark=") + options});
    INFO(said);
    CHECK(said.starts_with("--spark: "));
    CHECK_THAT(said, Contains("seen in the list of processes") && !Contains("hush"));
  }
  const auto host =
      on_a_laptop({{"DTRAIN_SPARK", "--conf spark.authenticate=true --conf spark.authenticate.secret=hush"}});
  CHECK_THAT(no_cluster({"--engine", "spark"}, host), Contains("DTRAIN_SPARK: spark.authenticate.secret would be"));
  for (const char* options :
       {"--conf spark.authenticate=true", "--conf spark.kubernetes.executor.secretKeyRef.A_PASSWORD=a:b",
        "--conf spark.authenticate.secret.file=/f", "--conf spark.authenticate.secretBitLength=256",
        "--properties-file secret"})
    CHECK(no_cluster({"--engine", "spark", std::string("--spark=") + options}) == "a cluster");
}

TEST_CASE("a master of Spark's counts as an address of Ray's does") {
  const auto with = [](const char* master) { return on_a_laptop({{"MASTER", master}}); };
  CHECK(cluster_for({"--nnodes", "2"}, with("spark://a:7077")).engine->title == "Spark");
  CHECK(no_cluster({}, with("spark://a:7077")) == "none");
  CHECK(no_cluster({"--nnodes", "2"}, with("the master's name")) == "none");
}

TEST_CASE("an address of Ray's counts where several nodes are asked for, and nobody says more") {
  const std::map<std::string, std::string> live = {{"RAY_ADDRESS", "10.0.0.1:6379"}};
  CHECK(no_cluster({"--nnodes", "2"}, on_a_laptop(live)) == "a cluster");
  CHECK(no_cluster({"--nnodes", "2"}) == "none");
  CHECK(no_cluster({}, on_a_laptop(live)) == "none");
  CHECK(no_cluster({"--nnodes", "1"}, on_a_laptop(live)) == "none");
  CHECK(no_cluster({"--nnodes", "2", "--rdzv-endpoint", "a:1"}, on_a_laptop(live)) == "none");
  CHECK(no_cluster({"--engine", "local", "--nnodes", "2"}, on_a_laptop(live)) == "none");
  auto in_mpi = live;
  in_mpi.insert({{"OMPI_COMM_WORLD_SIZE", "2"},
                 {"OMPI_COMM_WORLD_RANK", "0"},
                 {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
                 {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}});
  CHECK(no_cluster({"--nnodes", "2"}, on_a_laptop(in_mpi)) == "none");
}

TEST_CASE("what does not go together with a cluster is an error") {
  for (const char* flag : {"--standalone", "--node-rank=0", "--rdzv-endpoint=a:1", "--ha", "--attach=0"})
    CHECK_THAT(no_cluster({"--engine", "ray", flag}), Contains("--engine ray"));
  CHECK_THAT(no_cluster({"--engine", "ray", "--nnodes", "x"}), Contains("--nnodes"));
}

TEST_CASE("an agent on a cluster has no cluster to go to") {
  Host host = on_a_laptop();
  host.place = launcher::AgentPlace{"ray", "2", "0", "", "job", "2"};
  CHECK(no_cluster({"--engine", "ray"}, host) == "none");
}

TEST_CASE("the doctor tells of a cluster") {
  const auto engine = [](std::map<std::string, std::string> env) {
    return judge_engine(on_a_laptop(std::move(env))).at(0).detail;
  };
  CHECK(engine({{"DTRAIN_ENGINE", "ray"}}) == "Ray: DTRAIN_ENGINE is set");
  CHECK(engine({{"DTRAIN_ENGINE", "spark"}}) == "Spark: DTRAIN_ENGINE is set");
  CHECK(engine({{"MASTER", "spark://a:1"}}) == "local; with --nnodes N, Spark's cluster: MASTER is set (spark://a:1)");
  CHECK(engine({{"RAY_ADDRESS", "a:1"}}) == "local; with --nnodes N, Ray's cluster: RAY_ADDRESS is set (a:1)");
}

TEST_CASE("what a cluster says of this node does not go to others") {
  const auto sent = environment_for_cluster(on_a_laptop({{"CUDA_VISIBLE_DEVICES", "1"},
                                                         {"RAY_JOB_ID", "1"},
                                                         {"RAY_ADDRESS", "a:1"},
                                                         {"LR", "1"},
                                                         {"_SPARK_AUTH_SECRET", "1"},
                                                         {"PYSPARK_SUBMIT_ARGS", "--conf a.password=1"},
                                                         {"PYSPARK_GATEWAY_SECRET", "1"}}),
                                            "token");
  CHECK_FALSE(sent.contains("PYSPARK_GATEWAY_SECRET"));
  CHECK_FALSE(sent.contains("_SPARK_AUTH_SECRET"));
  CHECK_FALSE(sent.contains("PYSPARK_SUBMIT_ARGS"));
  CHECK_FALSE(sent.contains("CUDA_VISIBLE_DEVICES"));
  CHECK_FALSE(sent.contains("RAY_JOB_ID"));
  CHECK(sent.at("RAY_ADDRESS") == "a:1");
  CHECK(sent.at("LR") == "1");
  CHECK(sent.at("DTRAIN_TOKEN") == "token");
}
