// --hosts, --hostfile and the engines' names.
#include "cli/engines/hosts.h"

#include "cli/doctor/doctor.h"
#include "cli/engines/mpi.h"
#include "test/support/catch.h"
#include "test/unit/cli/engines/placed.h"

using namespace dtrain;
using namespace dtrain::cli;
using Catch::Contains;

namespace {

Host at_home() {
  Host host = test_host({{"./train", executable_file()}});
  host.folder = [] { return std::string("/work"); };
  host.read_text = [](const std::string& path) {
    return path == "hosts" ? Result<std::string>("a slots=2\nb slots=4\n")
                           : Result<std::string>(Error{ErrorKind::usage, "no such file"});
  };
  return host;
}

Result<std::optional<launcher::PlacementRequest>> asked(std::vector<std::string> words, const Host& host = at_home(),
                                                        CalledAs as = CalledAs::dtrain) {
  words.insert(words.end(), {"./train", "--lr=1"});
  const auto raw = parse(words, as);
  return hosts_that_count(*raw, Options(*raw, host), host);
}

launcher::PlacementRequest wanted(std::vector<std::string> words, const Host& host = at_home()) {
  auto request = asked(std::move(words), host);
  INFO((request ? "" : request.error().message));
  REQUIRE(request.ok());
  REQUIRE(request->has_value());
  return **request;
}

std::string why_not(std::vector<std::string> words, const Host& host = at_home()) {
  const auto request = asked(std::move(words), host);
  return request ? "fine" : request.error().message;
}

}  // namespace

TEST_CASE("a list of hosts is for ssh, and what else was typed goes there") {
  const auto request = wanted({"-H", "a:2,b:4", "--nproc", "2", "-v", "--ssh", "rsh"});
  CHECK(request.hosts == std::vector<launcher::PlacedHost>{{"a", 2}, {"b", 4}});
  CHECK(request.least == 2);
  CHECK(request.numbered);
  CHECK_FALSE(request.meets_elsewhere);
  CHECK(request.task.called == "dtrain");
  CHECK(request.task.words == std::vector<std::string>{"--nproc=2", "--verbose", "--", "./train", "--lr=1"});
  CHECK(request.task.folder == "/work");
  CHECK(request.task.place == launcher::AgentPlace{"ssh", "", "", "", "job-1a2b3c4d", ""});
  CHECK(wanted({"--hostfile", "hosts"}).hosts == std::vector<launcher::PlacedHost>{{"a", 2}, {"b", 4}});
  CHECK(wanted({"--hostfile", "hosts", "--exclude", "a"}).hosts == std::vector<launcher::PlacedHost>{{"b", 4}});
  CHECK(wanted({"--hostfile", "hosts", "--include", "b:0@a"}).hosts ==
        std::vector<launcher::PlacedHost>{{"a", 2}, {"b", 4, {0}}});
  CHECK_FALSE(asked(std::vector<std::string>())->has_value());
}

TEST_CASE("horovodrun's -np takes the first slots of the hosts") {
  using Hosts = std::vector<launcher::PlacedHost>;
  const auto request = wanted({"-np", "5", "-H", "a:2,b:4,c:2"});
  CHECK(request.hosts == Hosts{{"a", 2}, {"b", 3}});
  CHECK(request.least == 2);
  CHECK(request.task.words == std::vector<std::string>{"--num-proc=5", "--", "./train", "--lr=1"});
  CHECK(wanted({"--num-proc=6", "--hostfile", "hosts"}).hosts == Hosts{{"a", 2}, {"b", 4}});
  CHECK(wanted({"-np", "2", "--hostfile", "hosts", "--include", "b:1,3@a:1"}).hosts ==
        Hosts{{"a", 1, {1}}, {"b", 1, {1}}});
  CHECK(why_not({"-np", "7", "--hostfile", "hosts"}) == "-np '7': the hosts have 6 slots");
  CHECK(why_not({"-np", "2", "-H", "a,b:2"}) == "-np needs the slots of each host, and a has none: HOST:SLOTS");
  CHECK(wanted({"-np", "auto", "-H", "a,b:2"}).hosts == Hosts{{"a", 0}, {"b", 2}});
  // Equal parts.
  CHECK(wanted({"-np", "4", "-H", "a,b"}).hosts == Hosts{{"a", 2}, {"b", 2}});
  CHECK(wanted({"-np", "4", "-H", "a:4,b:4", "--nnodes", "2"}).hosts == Hosts{{"a", 2}, {"b", 2}});
  CHECK(wanted({"-np", "2", "--hostfile", "hosts", "--include", "b:1,3@a", "--nnodes", "2"}).hosts ==
        Hosts{{"a", 1}, {"b", 1, {1}}});
  CHECK(why_not({"-np", "4", "-H", "a:4,b:1", "--nnodes", "2"}) ==
        "-np '4': that is 2 for each host, and b has 1 slot");
  CHECK_THAT(why_not({"-np", "2", "--nproc", "2", "-H", "a:2"}), Contains("-np and --nproc both say how many"));
  // With --nnodes the hosts are chosen first, and none may stay empty.
  CHECK(why_not({"-np", "6", "-H", "a:2,b:2,c:2", "--nnodes", "2"}) == "-np '6': the hosts have 4 slots");
  CHECK(why_not({"-np", "4", "-H", "a:2,b:2", "--nnodes", "1"}) == "-np '4': the host has 2 slots");
  CHECK_THAT(why_not({"-np", "4", "-H", "a:4,b:4", "--nnodes", "1:2"}), Contains("no fixed number of workers"));
  // What is typed goes before a variable.
  Host by_variable = at_home();
  by_variable.env["DTRAIN_NPROC"] = "3";
  CHECK(wanted({"-np", "4", "-H", "a:2,b:2"}, by_variable).hosts == Hosts{{"a", 2}, {"b", 2}});
  by_variable.env = {{"DTRAIN_NUM_PROC", "2"}};
  CHECK(wanted({"--nproc", "1", "-H", "a:2,b:2"}, by_variable).hosts == Hosts{{"a", 2}, {"b", 2}});
  // An agent has its host's part.
  Host agent = at_home();
  agent.place = launcher::AgentPlace{"ssh", "2", "1", "127.0.0.1:29500", "job", "3"};
  CHECK(placed({"-np", "5"}, agent) == "127.0.0.1:29500 1 of 2:2, 3, job");
}

TEST_CASE("horovodrun's -np without a list of hosts is divided among the nodes") {
  CHECK(placed({"-np", "4"}, at_home()) == "127.0.0.1:0 -1 of 1:1, 4, job-1a2b3c4d");
  CHECK(placed({"-np=4", "--nproc", "4"}, at_home()) == "127.0.0.1:0 -1 of 1:1, 4, job-1a2b3c4d");
  CHECK(placed({"-np", "6", "--nnodes", "2"}, at_home()) == "127.0.0.1:29500 0 of 2:2, 3, none");
  CHECK_THAT(placed({"-np", "5", "--nnodes", "2"}, at_home()), Contains("no equal parts for 2 nodes"));
  CHECK_THAT(placed({"-np", "4", "--nnodes", "1:2"}, at_home()), Contains("no fixed number of workers"));
  CHECK_THAT(placed({"-np", "4", "--nproc", "3"}, at_home()), Contains("that is 4 for each node, and --nproc says 3"));
  CHECK_FALSE(parse(std::vector<std::string>{"-np", "4", "./train"}, CalledAs::torchrun).ok());
  CHECK_THAT(placed({"-np", "20000"}, at_home()), Contains("a node has at most 16384"));
  Host host = at_home();
  host.env = {{"DTRAIN_NUM_PROC", "2"}, {"PET_NPROC_PER_NODE", "auto"}};
  CHECK_THAT(placed({}, host), Contains("that is 2 for each node, and PET_NPROC_PER_NODE says auto"));
  CHECK(placed({"-np", "4"}, host) == "127.0.0.1:0 -1 of 1:1, 4, job-1a2b3c4d");
  host.env.erase("PET_NPROC_PER_NODE");
  CHECK(placed({"--nproc", "3"}, host) == "127.0.0.1:0 -1 of 1:1, 3, job-1a2b3c4d");
  CHECK(placed({}, host, CalledAs::torchrun).find(" of 1:1, 1, ") != std::string::npos);
  host.env["TORCHELASTIC_RUN_ID"] = "outer";  // the variable is of the job whose worker this is
  CHECK(placed({}, host) == "127.0.0.1:0 -1 of 1:1, 1, job-1a2b3c4d");
}

TEST_CASE("a number of nodes takes the first hosts, or lets some be missing") {
  CHECK(wanted({"--hosts", "a,b,c", "--nnodes", "2"}).hosts.size() == 2);
  const auto elastic = wanted({"--hosts", "a,b,c", "--nnodes", "2:8"});
  CHECK(elastic.hosts.size() == 3);
  CHECK(elastic.least == 2);
  CHECK(elastic.elastic);
  CHECK_FALSE(elastic.numbered);
  CHECK_FALSE(elastic.apart);
  CHECK(wanted({"--hosts", "a,b", "--replica-groups", "2"}).apart);
  CHECK_FALSE(wanted({"--hosts", "a,b", "--replica-groups", "0"}).apart);
  CHECK(why_not({"--hosts", "a,b", "--nnodes", "3"}) == "--nnodes is 3, and 2 hosts are named");
  CHECK(why_not({"--hosts", "a", "--nnodes", "2:3"}) == "--nnodes is 2:3, and 1 host is named");
  CHECK_THAT(why_not({"--hosts", "a", "--nnodes", "x"}), Contains("--nnodes 'x'"));
}

TEST_CASE("more hosts than a number are reached as a tree, unless the job goes on without some") {
  CHECK(wanted({"--hosts", "a,b"}).fanout == 64);
  CHECK(wanted({"--hosts", "a,b,c", "--ssh-fanout", "2"}).fanout == 2);
  CHECK(wanted({"--hosts", "a,b,c", "--ssh-fanout", "128"}).fanout == 128);
  CHECK(wanted({"--hosts", "a,b,c", "--ssh-fanout", "0"}).fanout == 0);
  CHECK(wanted({"--hosts", "a,b,c", "--ssh-fanout", "2", "--nnodes", "3"}).fanout == 2);
  CHECK(wanted({"--hosts", "a,b,c", "--ssh-fanout", "2", "--nnodes", "1:3"}).fanout == 0);
  CHECK(wanted({"--hosts", "a,b,c", "--ssh-fanout", "2"}).task.words == wanted({"--hosts", "a,b,c"}).task.words);
  for (const char* wrong : {"1", "-1", "129", "x"})
    CHECK_THAT(why_not({"--hosts", "a,b", "--ssh-fanout", wrong}),
               Contains("--ssh-fanout '" + std::string(wrong) + "'"));
  CHECK_THAT(why_not({"--hosts", "a,b", "--ssh-fanout", "1"}), Contains("0, or 2 to 128"));
}

TEST_CASE("the user may say where the nodes of a list meet") {
  CHECK(wanted({"--hosts", "a,b", "--rdzv-endpoint", "c:1"}).meets_elsewhere);
  CHECK_FALSE(wanted({"--hosts", "a,b", "--rdzv-endpoint", "c:1"}).numbered);
  CHECK(wanted({"--hosts", "a,b", "--master-addr", "a"}).numbered);
  CHECK_FALSE(wanted({"--hosts", "a,b", "--master-addr", "real"}).meets_elsewhere);
  CHECK(wanted({"--hosts", "a,b", "--master-port", "7"}).port == "7");
  CHECK(wanted({"--hosts", "a,b", "--rdzv-id", "mine"}).task.place.run_id == "mine");
  const auto c10d = wanted({"--hosts", "a,b", "--rdzv-backend", "c10d"});
  CHECK_FALSE(c10d.meets_elsewhere);
  CHECK_FALSE(c10d.numbered);
  CHECK(wanted({"--hosts", "a,b", "--rdzv-backend", "static"}).numbered);
  CHECK_THAT(why_not({"--hosts", "a,b", "--rdzv-backend", "etcd"}), Contains("etcd needs --rdzv-endpoint"));
  CHECK_THAT(why_not({"--hosts", "a,b,c", "--ha"}), Contains("--ha with a list of hosts needs --rdzv-endpoint"));
  CHECK_THAT(why_not({"--hosts", "a,b", "--master-port", "0"}), Contains("--master-port '0'"));
}

TEST_CASE("what cannot be with a list of hosts is named") {
  CHECK_THAT(why_not({"--hosts", "a", "--hostfile", "hosts"}), Contains("--hosts and --hostfile both name the hosts"));
  CHECK_THAT(why_not({"--hostfile", "none"}), Contains("--hostfile 'none': no such file"));
  CHECK_THAT(why_not({"--hosts", "a:x"}), Contains("--hosts 'a:x': 'x' is no number of slots"));
  CHECK_THAT(why_not({"--hosts", "a", "--standalone"}), Contains("--standalone does not go together with a list"));
  CHECK_THAT(why_not({"--hosts", "a", "--node-rank", "0"}), Contains("--node-rank does not go together"));
  CHECK_THAT(why_not({"--include", "a"}), Contains("--include chooses among hosts: name them"));
  CHECK_THAT(why_not({"--hosts", "a", "--include", "a", "--exclude", "a"}), Contains("do not go together"));
  CHECK_THAT(why_not({"--hosts", "a:2", "--nproc", "3"}), Contains("--nproc is 3, and a has 2 slots"));
  CHECK_THAT(why_not({"--engine", "ssh"}), Contains("--engine ssh needs hosts"));
  CHECK_THAT(why_not({"--engine", "slurm", "--hosts", "a"}), Contains("--hosts names hosts for ssh, and --engine is"));
  CHECK_THAT(why_not({"--hosts", "a", "--stdin", "0"}), Contains("workers there read /dev/null"));
  CHECK_THAT(why_not({"--hosts", "a", "--ssh", ""}), Contains("--ssh is empty"));
  CHECK_THAT(why_not({"--engine", "pbs"}), Contains("--engine 'pbs'"));
}

TEST_CASE("an agent has no hosts to start others on, and its engine's word counts") {
  Host host = at_home();
  host.env["DTRAIN_HOSTS"] = "a,b";
  CHECK(wanted({}, host).hosts.size() == 2);
  CHECK_FALSE(asked({"--engine", "local"}, host)->has_value());
  CHECK_FALSE(asked({"--standalone"}, host)->has_value());
  CHECK(wanted({"--hostfile", "hosts"}, host).hosts == std::vector<launcher::PlacedHost>{{"a", 2}, {"b", 4}});
  host.place = launcher::AgentPlace{"ssh", "2", "1", "10.0.0.4:20001", "job-9", "3"};
  CHECK_FALSE(asked({}, host)->has_value());
  host.token = JobSecret::generate();
  host.meeting_address = [](const std::string& name) {
    return Result<MeetingAddress>(judge_meeting_address({name}, {{"eth0", "10.0.0.5"}}));
  };
  CHECK(placed({}, host) == "10.0.0.4:20001 1 of 2:2, 3, job-9");
  CHECK(placed({"--nproc", "1"}, host) == "10.0.0.4:20001 1 of 2:2, 1, job-9");
}

TEST_CASE("an engine that is named and is not there is an error") {
  const Host host = at_home();
  CHECK_THAT(placed({"--engine", "slurm"}, host), Contains("--engine slurm: this is no step of SLURM"));
  CHECK_THAT(placed({"--engine", "slurm", "--standalone"}, host),
             Contains("--standalone is in conflict with --engine slurm"));
  CHECK_THAT(mpi_that_counts(*parse(std::vector<std::string>{"--engine", "mpi", "x"}), host).error().message,
             Contains("--engine mpi: no MPI launcher has started this process"));
  CHECK(placed({"--engine", "local"}, host) == "127.0.0.1:0 -1 of 1:1, 1, job-1a2b3c4d");
}

TEST_CASE("to other hosts go variables that are no host's own, and a token") {
  Host host = at_home();
  host.env = {{"HOME", "/root"},       {"SSH_CONNECTION", "x"}, {"PATH", "/bin"}, {"LR", "1"},
              {"DTRAIN_HOSTS", "a,b"}, {"DTRAIN_QUIET", "1"},   {"PWD", "/"}};
  CHECK(environment_to_send(host, "") ==
        std::map<std::string, std::string>{{"DTRAIN_QUIET", "1"}, {"LR", "1"}, {"PATH", "/bin"}});
  CHECK(environment_to_send(host, "secret").at("DTRAIN_TOKEN") == "secret");
  const auto token = [&](std::vector<std::string> words, std::size_t hosts) {
    words.emplace_back("x");
    return *token_to_send(Options(*parse(words), host), host, hosts);
  };
  CHECK(token({}, 1).empty());
  CHECK(JobSecret::parse(token({}, 2)).ok());
  CHECK(token({"--insecure"}, 2).empty());
  CHECK(token({"--token-file", "f"}, 2).empty());
  host.token = JobSecret::generate();
  CHECK(token({}, 2) == (*host.token)->text());
}

TEST_CASE("the command for a host is ssh's, but for this host") {
  CHECK(agent_command_on("localhost", "ssh", "/opt/dtrain", {"localhost"}) ==
        std::vector<std::string>{"/proc/self/exe", "agent"});
  const auto words = agent_command_on("me@b", "ssh  -p 2222", "/opt/dtrain", {"localhost"});
  CHECK(std::vector<std::string>(words.begin(), words.begin() + 3) == std::vector<std::string>{"ssh", "-p", "2222"});
  CHECK(words[words.size() - 2] == "me@b");
  CHECK(words.back() == "/bin/sh -c 'test -x /opt/dtrain && exec /opt/dtrain agent; exec dtrain agent'");
  CHECK(agent_command_on("b", "ssh", "/my 'files'/dtrain", {}).back() == "exec dtrain agent");
  CHECK(agent_command_on("b", "ssh", "/opt/torchrun", {}).back() == "exec dtrain agent");
}

TEST_CASE("the doctor tells what would start the agents, and by what it knows") {
  const auto engine = [](std::map<std::string, std::string> env) {
    Host host = at_home();
    host.env.insert(env.begin(), env.end());
    const Findings findings = judge_engine(host);
    REQUIRE(findings.size() == 1);
    return findings[0].detail;
  };
  CHECK(engine({}) == "local: no scheduler, no launcher and no list of hosts says otherwise");
  CHECK(engine({{"DTRAIN_HOSTS", "a,b"}}) == "ssh, to 2 hosts: DTRAIN_HOSTS is set");
  CHECK_THAT(engine({{"DTRAIN_HOSTFILE", "none"}}), Contains("DTRAIN_HOSTFILE='none': no such file"));
  CHECK(engine({{"PET_RDZV_ENDPOINT", "a:1"}}) == "none: variables say where the nodes meet");
  CHECK_THAT(engine({{"DTRAIN_ENGINE", "slurm"}}), Contains("SLURM, and this is no step of it"));
  CHECK(engine({{"DSTACK_NODES_NUM", "2"},
                {"DSTACK_NODE_RANK", "1"},
                {"DSTACK_MASTER_NODE_IP", "10.0.0.4"},
                {"DSTACK_RUN_NAME", "r"}}) == "dstack: DSTACK_NODES_NUM is set");
  CHECK_THAT(engine({{"SLURM_JOB_ID", "7"},
                     {"SLURM_STEP_ID", "0"},
                     {"SLURM_STEP_NUM_NODES", "1"},
                     {"SLURM_STEP_TASKS_PER_NODE", "1"},
                     {"SLURM_STEP_NODELIST", "n"},
                     {"SLURM_NODEID", "0"}}),
             Contains("SLURM, step 7.0: SLURM_STEP_ID is set"));
  CHECK_THAT(engine({{"OMPI_COMM_WORLD_SIZE", "2"},
                     {"OMPI_COMM_WORLD_RANK", "0"},
                     {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
                     {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}}),
             Contains("OMPI_COMM_WORLD_RANK is set"));
}
