// When MPI's word counts for where nodes meet, and when the user's does.
#include "cli/engines/mpi.h"

#include "cli/doctor/doctor.h"
#include "test/support/catch.h"
#include "test/unit/cli/engines/placed.h"

using namespace dtrain;
using namespace dtrain::cli;
using Catch::Contains;

namespace {

// Started by mpirun as the second of three, each on a host of its own.
Host by_mpirun() {
  Host host = test_host({{"./train", executable_file()}});
  host.env.insert({{"OMPI_COMM_WORLD_RANK", "1"},
                   {"OMPI_COMM_WORLD_SIZE", "3"},
                   {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                   {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}});
  host.meeting_address = [](const std::string& name) {
    return Result<MeetingAddress>(judge_meeting_address({name}, {{"eth0", "10.0.0.2"}}));
  };
  host.addresses = [] { return std::vector<InterfaceAddress>{{"eth0", "10.0.0.2"}, {"br0", "192.168.7.1"}}; };
  return host;
}

// The same, when all have met.
Host met(MpiSeat seat = {3, 1, 1, {0}, {}}) {
  Host host = by_mpirun();
  host.mpi = Host::Mpi{**launcher::mpi_process(host.env),
                       MpiMeeting{"4711", std::move(seat), {"192.168.7.1", "10.0.0.1"}, {}, *JobSecret::generate()}};
  return host;
}

bool counts(std::vector<std::string> words, CalledAs as = CalledAs::dtrain, const Host& host = by_mpirun()) {
  words.emplace_back("./train");
  const auto process = mpi_that_counts(*parse(words, as), host);
  REQUIRE(process.ok());
  return process->has_value();
}

}  // namespace

TEST_CASE("processes that mpirun has started meet, unless the user says where") {
  CHECK(counts({}));
  CHECK(counts({"--nproc", "4"}));
  CHECK(counts({"--nnodes", "3"}));
  CHECK(counts({"--nnodes", "2"}));  // and is an error, when they have met
  CHECK_FALSE(counts({"--nnodes", "1"}));
  CHECK_FALSE(counts({"--standalone"}));
  CHECK_FALSE(counts({"--node-rank", "1", "--nnodes", "3"}));
  CHECK_FALSE(counts({"--rdzv-endpoint", "a:1"}));
  CHECK_FALSE(counts({}, CalledAs::torchrun));
  CHECK_FALSE(counts({}, CalledAs::dtrain, test_host({})));
}

TEST_CASE("what they have said stands in for flags") {
  // Node 0's address that this host has too is a bridge's.
  CHECK(placed({}, met()) == "10.0.0.1:25354 1 of 3:3, 1, 4711");
  CHECK(placed({"--nproc", "2"}, met()) == "10.0.0.1:25354 1 of 3:3, 2, 4711");
  CHECK(placed({"--master-port", "4000", "--rdzv-id", "mine"}, met()) == "10.0.0.1:4000 1 of 3:3, 1, mine");
  Host lonely = met();
  lonely.mpi->meeting->addresses = {"192.168.7.1"};
  CHECK_THAT(placed({}, lonely), Contains("rank 0 has no address that this host could reach"));
}

TEST_CASE("their secret is that of the job, unless the user names one") {
  const Host host = met();
  const auto used = [](std::vector<std::string> words, const Host& where) {
    words.emplace_back("./train");
    return resolve(*parse(words), where)->spec.nodes.credential->secret()->text();
  };
  CHECK(used({}, host) == host.mpi->meeting->secret->text());
  Host named = host;
  named.token = JobSecret::generate();
  CHECK(used({}, named) == (*named.token)->text());
}

TEST_CASE("several processes on a host are as many workers") {
  CHECK(placed({}, met({1, 0, 4, {0, 1}, {}})) == "127.0.0.1:0 -1 of 1:1, 4, job-1a2b3c4d");
  CHECK(placed({}, met({3, 1, 2, {0, 1}, {}})) == "10.0.0.1:25354 1 of 3:3, 2, 4711");
  CHECK(placed({"--nproc", "2"}, met({3, 1, 2, {0, 1}, {}})) == "10.0.0.1:25354 1 of 3:3, 2, 4711");
  CHECK_THAT(placed({"--nproc", "8"}, met({3, 1, 2, {0, 1}, {}})),
             Contains("has started 2 processes on this host, each for one worker, and --nproc is 8; start one for each "
                      "host (mpirun -N 1"));
}

TEST_CASE("doctor says which process of MPI's this is, and whether it could meet the others") {
  const launcher::MpiProcess process = **launcher::mpi_process(by_mpirun().env);
  const auto fine = judge_mpi(process, {}).front();
  CHECK(fine.level == Finding::Level::ok);
  CHECK(fine.detail ==
        "mpirun (Open MPI), process 1 of 3, 0 of 1 on this host; `dtrain run` makes its processes one job");
  const auto lacking = judge_mpi(process, Error{ErrorKind::usage, "no library"}).front();
  CHECK(lacking.level == Finding::Level::fail);
  CHECK_THAT(lacking.detail, Contains("; no library"));
}

TEST_CASE("a number of nodes that is not that of the hosts is an error on all of them") {
  CHECK_THAT(placed({"--nnodes", "2"}, met()), Contains("has started processes on 3 hosts, and --nnodes is 2"));
  CHECK_THAT(placed({"--nnodes", "1:3"}, met()), Contains("on 3 hosts, and --nnodes is 1:3"));
  CHECK_THAT(placed({"--nnodes", "2"}, met({1, 0, 2, {0, 1}, {}})), Contains("on 1 hosts, and --nnodes is 2"));
  CHECK_THAT(placed({"--ha"}, met()), Contains("--ha needs the names of three or five hosts under MPI too"));
  CHECK(placed({"--nnodes", "3:3"}, met()) == "10.0.0.1:25354 1 of 3:3, 1, 4711");
}

TEST_CASE("workers have ended before Open MPI kills") {
  const auto shutdown = [](const Host& host, std::vector<std::string> words = {}) {
    words.emplace_back("./train");
    return resolve(*parse(words), host)->spec.shutdown_timeout.count();
  };
  CHECK(shutdown(met()) == 700);
  CHECK(shutdown(met(), {"--shutdown-timeout", "20"}) == 20000);
  Host patient = met();
  patient.mpi->process.kill_after = 30;
  CHECK(shutdown(patient) == 21000);
}

TEST_CASE("until they have met, nobody's word counts for where nodes meet") {
  Host host = by_mpirun();
  host.mpi = Host::Mpi{**launcher::mpi_process(host.env), std::nullopt};
  host.env.insert({{"SLURM_JOB_ID", "7"},
                   {"SLURM_STEP_ID", "0"},
                   {"SLURM_STEP_NUM_NODES", "1"},
                   {"SLURM_STEP_TASKS_PER_NODE", "2"}});
  CHECK(placed({}, host) == "127.0.0.1:0 -1 of 1:1, 1, job-1a2b3c4d");
}

TEST_CASE("commands and credentials are compared by what was typed") {
  CHECK(command_digest({"a", "b"}) == command_digest({"a", "b"}));
  CHECK(command_digest({"a", "b"}) != command_digest({"ab"}));
  CHECK(command_digest({"a"}).size() == 16);
  const auto named = [](std::vector<std::string> words, const Host& host) {
    words.emplace_back("./train");
    return named_credential(Options(*parse(words), host), host);
  };
  Host host = by_mpirun();
  CHECK(named({}, host).empty());
  CHECK(named({"--insecure"}, host) == "--insecure");
  CHECK(named({"--token-file", "x"}, host) == "a token file");
  host.token = JobSecret::generate();
  CHECK(named({}, host) == "DTRAIN_TOKEN with the fingerprint " + *(*host.token)->fingerprint());
}
