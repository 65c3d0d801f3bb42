#include "cli/resolve/resolve.h"

#include <csignal>

#include "test/support/catch.h"
#include "test/unit/cli/test_host.h"

namespace dtrain::cli {
namespace {

using Words = std::vector<std::string>;
using Catch::Contains;
using launcher::JobSpec;

Result<Plan> resolved(Words flags, const Host& host, bool as_torchrun = false) {
  flags.push_back("true");
  auto raw = parse(flags);
  REQUIRE(raw.ok());
  raw->as_torchrun = as_torchrun;
  return resolve(*raw, host);
}

Plan plan(const Words& flags, const Host& host = test_host(), bool as_torchrun = false) {
  auto answer = resolved(flags, host, as_torchrun);
  INFO((answer.ok() ? "" : answer.error().message));
  REQUIRE(answer.ok());
  return *answer;
}

JobSpec spec(const Words& flags, const Host& host = test_host()) { return plan(flags, host).spec; }

std::string error(const Words& flags, const Host& host = test_host(), ErrorKind kind = ErrorKind::usage) {
  auto answer = resolved(flags, host);
  if (answer.ok()) return "<none>";
  CHECK(answer.error().kind == kind);
  CHECK(answer.error().message.find('\n') == std::string::npos);
  return answer.error().message;
}

Host with_env(const std::string& name, const std::string& value) {
  Host host = test_host();
  host.env[name] = value;
  return host;
}

Host with_gpus(int count) {
  Host host = test_host();
  host.gpus = [count] {
    GpuInventory inventory;
    for (int i = 0; i < count; ++i) inventory.gpus.push_back({"GPU-5" + std::to_string(i), ""});
    return inventory;
  };
  return host;
}

}  // namespace

TEST_CASE("a flag of dtrain's that stands after the program is told, unless it was meant") {
  const auto notes = [](const Words& words, bool as_torchrun = false) {
    auto raw = parse(words);
    REQUIRE(raw.ok());
    raw->as_torchrun = as_torchrun;
    auto answer = resolve(*raw, test_host());
    REQUIRE(answer.ok());
    return answer->notes;
  };
  CHECK(
      notes({"true", "--nproc", "2", "--max_restarts=3"}) ==
      Words{"--nproc, --max_restarts go to true: put flags of dtrain before it (put -- before it to hide this note)"});
  CHECK(notes({"true", "--nproc", "2"}, true).empty());
  CHECK(notes({"--", "true", "--nproc", "2"}).empty());
  CHECK(notes({"--log-dir=/tmp", "true", "--log-dir", "mine"}).empty());
  CHECK(notes({"true", "--lr", "1", "--help", "--version", "--start-method=fork", "-t", "3"}).empty());
  CHECK(notes({"true", "--", "--nproc"}).empty());
}

TEST_CASE("without flags the job is the default job") {
  JobSpec expected;
  expected.run_id = "job-1a2b3c4d";
  JobSpec got = spec({});
  CHECK(got.run_id == expected.run_id);
  CHECK(got.argv == Words{"true"});
  CHECK(got.program == "true");
  CHECK(got.nproc_per_node == expected.nproc_per_node);
  CHECK(got.role == expected.role);
  CHECK(got.max_restarts == expected.max_restarts);
  CHECK(got.failure_grace == expected.failure_grace);
  CHECK(got.shutdown_timeout == expected.shutdown_timeout);
  CHECK(got.log_dir == expected.log_dir);
  CHECK_FALSE(got.redirects.any());
  CHECK_FALSE(got.tee.any());
  CHECK(got.containment == expected.containment);
  CHECK(got.stdin_mode.kind == expected.stdin_mode.kind);
  CHECK(got.color == expected.color);
  CHECK(got.prefix_template == expected.prefix_template);
  CHECK(got.passed_signals == std::vector<int>{SIGUSR1, SIGUSR2});
  CHECK(got.stop_signals == std::vector<int>{SIGTERM, SIGINT, SIGHUP, SIGQUIT});
  CHECK(got.extra_env.empty());
  CHECK(got.report_path.empty());
  CHECK_FALSE(got.quiet);
  CHECK(plan({}).notes.empty());
}

TEST_CASE("ranks on the console must exist where that is known") {
  const auto& console = spec({"--nproc=8", "--ranks=0,5-7", "--local-ranks-filter", "7"}).console;
  CHECK(console.shows(7, 7));
  CHECK_FALSE(console.shows(5, 5));
  CHECK(spec({"--nproc=8"}).console.shows(3, 3));
  CHECK(error({"--nproc=8", "--ranks=0,8"}) == "--ranks '0,8': there is no rank 8: they go from 0 to 7");
  CHECK(error({"--local-ranks-filter=1"}) == "--local-ranks-filter '1': there is no rank 1, only 0");
  CHECK(error({}, with_env("PET_LOCAL_RANKS_FILTER", "x")) ==
        "PET_LOCAL_RANKS_FILTER='x': expected ranks and ranges of ranks such as 0,5-7");
  // torchrun shows nobody then.
  CHECK_FALSE(plan({"--local-ranks-filter=1"}, test_host(), true).spec.console.shows(0, 0));
  CHECK(plan({}, test_host(), true).spec.console.raw);
  CHECK_FALSE(plan({}).spec.console.raw);
}

TEST_CASE("filters of lines that are copied") {
  auto got = plan({"-t=1", "--duplicate-stdout-filters=loss,,acc,error", "--duplicate-stderr-filters", "OOM"});
  CHECK(got.spec.duplicate_stdout_filters == Words{"loss,acc", "error"});
  CHECK(got.spec.duplicate_stderr_filters == Words{"OOM"});
  CHECK(got.notes.empty());
  CHECK(plan({"--duplicate-stdout-filters=loss"}).notes.size() == 1);
}

TEST_CASE("the sign for folded lines is what the locale can show") {
  auto utf8 = [](std::map<std::string, std::string> env) {
    Host host = test_host();
    host.env.insert(env.begin(), env.end());
    return spec({"--fold", "--timestamps"}, host).console.utf8;
  };
  CHECK(utf8({{"LANG", "en_US.UTF-8"}}));
  CHECK(utf8({{"LANG", "C"}, {"LC_CTYPE", "C.utf8"}}));
  CHECK_FALSE(utf8({{"LANG", "en_US.UTF-8"}, {"LC_ALL", "C"}}));
  CHECK_FALSE(utf8({}));
  CHECK(spec({"--fold"}).console.fold);
  CHECK(spec({"--timestamps"}).console.timestamps);
  CHECK_FALSE(spec({}).console.fold);
}

TEST_CASE("how many workers: a number, cores, GPUs") {
  CHECK(spec({"--nproc=3"}).nproc_per_node == 3);
  CHECK(spec({"--nproc=cpu"}).nproc_per_node == 8);
  CHECK(spec({"--nproc=auto"}).nproc_per_node == 8);
  CHECK(spec({"--nproc=auto"}, with_gpus(2)).nproc_per_node == 2);
  CHECK(spec({"--nproc=gpu"}, with_gpus(4)).nproc_per_node == 4);
  CHECK(error({"--nproc=gpu"}).starts_with("--nproc 'gpu': no GPU is visible here"));
  Host hidden = with_gpus(4);
  hidden.env["CUDA_VISIBLE_DEVICES"] = "3,GPU-51,0";
  CHECK(spec({"--nproc=gpu"}, hidden).nproc_per_node == 3);
  hidden.env["CUDA_VISIBLE_DEVICES"] = "1,-1,2";
  CHECK(spec({"--nproc=gpu"}, hidden).nproc_per_node == 1);
  hidden.env["CUDA_VISIBLE_DEVICES"] = "";
  CHECK(error({"--nproc=gpu"}, hidden) != "<none>");
  CHECK(spec({"--nproc=auto"}, hidden).nproc_per_node == 8);
}

TEST_CASE("impossible numbers name the flag and the value") {
  for (const char* bad : {"0", "-1", "1e3", "99999999999", "", "two", "16385", "1.5"}) {
    std::string expected = std::string("'") + bad + "': expected a whole number from 1 to 16384, or auto, cpu, gpu";
    CHECK(error({"--nproc", bad}) == "--nproc " + expected);
    CHECK(error({"--nproc_per_node", bad}) == "--nproc_per_node " + expected);
    if (*bad != 0) CHECK(error({}, with_env("PET_NPROC_PER_NODE", bad)) == "PET_NPROC_PER_NODE=" + expected);
  }
  for (const char* bad : {"-1", "1e3", "99999999999", ""}) {
    std::string value = std::string("'") + bad + "'";
    CHECK(error({"--max-restarts", bad}) ==
          "--max-restarts " + value + ": expected a whole number from 0 to 1000000000");
    CHECK(error({"--shutdown-timeout", bad}) ==
          "--shutdown-timeout " + value + ": expected seconds from 0 to 31536000");
    CHECK(error({"--failure-grace", bad}).starts_with("--failure-grace " + value));
  }
}

TEST_CASE("a flag wins over DTRAIN_, that over PET_, that over torchrun's own variables, that over the default") {
  Host host = with_env("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "1");
  auto seconds = [&](const Words& flags) { return spec(flags, host).shutdown_timeout.count() / 1000; };
  CHECK(seconds({}) == 1);
  host.env["PET_SHUTDOWN_TIMEOUT"] = "2";
  CHECK(seconds({}) == 2);
  host.env["DTRAIN_SHUTDOWN_TIMEOUT"] = "3";
  CHECK(seconds({}) == 3);
  CHECK(seconds({"--shutdown-timeout=4"}) == 4);
  host.env["DTRAIN_SHUTDOWN_TIMEOUT"] = "";
  CHECK(seconds({}) == 2);
}

TEST_CASE("each setting tells where its value comes from") {
  Host host = with_env("PET_MAX_RESTARTS", "2");
  host.env["DTRAIN_ROLE"] = "reader";
  auto origin = [settings = plan({"-t3", "--nnodes=1"}, host).settings](const std::string& flag) {
    for (const Setting& setting : settings)
      if (setting.flag == flag) return setting.value + " " + setting.origin;
    return std::string("absent");
  };
  CHECK(origin("--tee") == "3 flag");
  CHECK(origin("--max-restarts") == "2 PET_MAX_RESTARTS");
  CHECK(origin("--role") == "reader DTRAIN_ROLE");
  CHECK(origin("--nproc") == "1 default");
  CHECK(origin("--nnodes") == "1 flag");
  CHECK(origin("--node-rank") == "0 default");
  CHECK(origin("--help") == "absent");
}

TEST_CASE("switches in the environment") {
  CHECK(plan({}, with_env("DTRAIN_DRY_RUN", "1")).dry_run);
  CHECK_FALSE(plan({}, with_env("DTRAIN_DRY_RUN", "0")).dry_run);
  CHECK(error({}, with_env("PET_NO_PYTHON", "maybe")) == "PET_NO_PYTHON='maybe': expected 0 or 1");
  CHECK(error({}, with_env("PET_STANDALONE", "x")) == "PET_STANDALONE='x': expected 0 or 1");
  CHECK(spec({}, with_env("PET_MODULE", "1")).argv == Words{"/usr/bin/python3", "-u", "-m", "true"});
}

TEST_CASE("signals that stop and signals that pass") {
  CHECK(spec({"--pass-signals=none"}).passed_signals.empty());
  CHECK(spec({"--signals-to-handle=TERM,USR1"}).passed_signals == std::vector<int>{SIGUSR2});
  CHECK(error({"--signals-to-handle=TERM", "--pass-signals=TERM"}) ==
        "--pass-signals 'TERM': signal 15 is in --signals-to-handle as well");
  CHECK(error({"--signals-to-handle=SIGTREM"}) ==
        "--signals-to-handle 'SIGTREM': there is no signal SIGTREM; did you mean TERM?");
  CHECK(error({"--pass-signals=KILL"}) == "--pass-signals 'KILL': SIGKILL cannot be chosen");
}

TEST_CASE("choices") {
  CHECK(spec({"--contain=pidns"}).containment == launcher::Containment::pidns);
  CHECK(error({"--contain=docker"}) == "--contain 'docker': expected one of auto, cgroup, subreaper, pidns");
  CHECK(spec({"--color=always"}, with_env("NO_COLOR", "1")).color == launcher::Color::always);
  CHECK(spec({}, with_env("NO_COLOR", "1")).color == launcher::Color::never);
  CHECK(spec({}, with_env("NO_COLOR", "")).color == launcher::Color::automatic);
  CHECK(spec({}, with_env("TERM", "dumb")).color == launcher::Color::never);
  CHECK(spec({"--stdin=none"}).stdin_mode.kind == launcher::StdinMode::Kind::none);
  CHECK(spec({"--stdin=1", "--nproc=2"}).stdin_mode.local_rank == 1);
  CHECK(error({"--stdin=2", "--nproc=2"}) == "--stdin '2': expected all, none or a local rank from 0 to 1");
}

TEST_CASE("names of jobs become names of folders") {
  CHECK(spec({"--rdzv-id=exp 7"}).run_id == "exp 7");
  CHECK(spec({"--rdzv-id=me/exp"}).run_id == "me/exp");
  for (const std::string& bad : {std::string(".."), std::string("a\nb"), std::string(129, 'x')})
    CHECK(error({"--rdzv-id=" + bad}).find("a job's name has at most 128 characters") != std::string::npos);
}

TEST_CASE("logs and reports must have a place") {
  Host host = test_host(
      {{"/logs", folder()}, {"/file", plain_file()}, {"/ro", {FileFacts::Kind::folder, true, false, true, true, ""}}});
  CHECK(spec({"--log-dir=/logs/new/deep"}, host).log_dir == "/logs/new/deep");
  CHECK(spec({"--log-dir=relative"}, host).log_dir == "relative");
  CHECK(spec({"--log-dir=/dev/null"}, host).log_dir == "/dev/null");
  CHECK(error({"--log-dir=/ro/x"}, host) == "--log-dir '/ro/x': /ro is not writable");
  CHECK(error({"--log-dir=/file/x"}, host) == "--log-dir '/file/x': /file is not a folder");
  CHECK(spec({"--report=/logs/r.json"}, host).report_path == "/logs/r.json");
  CHECK(spec({"--report=r.json"}, host).report_path == "r.json");
  CHECK(error({"--report=/logs"}, host) == "--report '/logs': is a folder, not a file");
  CHECK(error({"--report=/none/r"}, host) == "--report '/none/r': its folder does not exist");
  CHECK(error({"--report=/ro/r"}, host) == "--report '/ro/r': its folder is not writable");
}

TEST_CASE("threads are shared out among the workers, unless the user did") {
  auto threads = [](const Plan& p) { return p.spec.extra_env.empty() ? "unset" : p.spec.extra_env[0].second; };
  CHECK(threads(plan({"--nproc=2"})) == "4");
  CHECK(threads(plan({"--nproc=3"})) == "2");
  CHECK(threads(plan({"--nproc=9"})) == "1");
  CHECK(threads(plan({"--nproc=1"})) == "unset");
  CHECK(threads(plan({"--nproc=2"}, with_env("OMP_NUM_THREADS", ""))) == "unset");
  CHECK(threads(plan({"--nproc=2"}, test_host(), true)) == "1");
  CHECK(plan({"--nproc=2"}, test_host(), true).notes ==
        Words{"OMP_NUM_THREADS=1 for each of 2 workers (8 cores); set it to choose"});
  CHECK(plan({"--nproc=2"}).details == Words{"OMP_NUM_THREADS=4 for each of 2 workers (8 cores); set it to choose"});
}

TEST_CASE("as torchrun lines begin as torchrun's do") {
  CHECK(plan({}, test_host(), true).spec.prefix_template == "[${role_name}${local_rank}]:");
  CHECK(spec({"--log-line-prefix-template=$rank "}).prefix_template == "$rank ");
  CHECK(spec({}, with_env("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "> ")).prefix_template == "> ");
}

TEST_CASE("torchrun's flags for many nodes") {
  CHECK(plan({"--nnodes=1:1", "--node-rank=0", "--event-log-handler=null", "--logs-specs=default"}).notes.empty());
  CHECK(plan({"--rdzv-backend=c10d", "--rdzv_endpoint=localhost:0", "--rdzv-id=7"}).notes ==
        Words{"no effect here: --rdzv-endpoint"});
  CHECK(plan({"--rdzv-id=7"}).spec.run_id == "7");
  Host kubeflow = with_env("PET_NNODES", "1");
  kubeflow.env["PET_MASTER_ADDR"] = "head";
  kubeflow.env["PET_VIRTUAL_LOCAL_RANK"] = "0";
  CHECK(plan({}, kubeflow).notes == Words{"no effect here: --master-addr"});
  CHECK(error({"--nnodes=2", "--rdzv-backend=etcd"}).find("name the members of etcd") != std::string::npos);
  CHECK(spec({"--nnodes=1:2", "--rdzv-backend=c10d"}).nodes.several());
  CHECK(error({"--nnodes=0"}) == "--nnodes '0': a job has at least 1 node");
  CHECK(error({}, with_env("PET_NNODES", "x")) == "PET_NNODES='x': expected N or MIN:MAX");
  CHECK(spec({"--nnodes=2"}).run_id == "none");
  CHECK(error({"--node-rank=1", "--master-port=9"}) ==
        "--node-rank '1': ranks of nodes count from 0, and there are 1 (--nnodes)");
}

TEST_CASE("state is kept if somebody asks for it, and without a second round that is told to be useless") {
  CHECK_FALSE(spec({}).keep_state);
  CHECK(spec({"--keep-state", "--max-restarts=3"}).keep_state);
  CHECK(spec({}, with_env("DTRAIN_KEEP_STATE", "1")).keep_state);
  CHECK_FALSE(spec({"--keep-state", "--max-restarts=3"}).copy_state);
  CHECK(spec({"--copy-state", "--nnodes=2"}).copy_state);
  CHECK(spec({"--copy-state", "--nnodes=2"}).keep_state);
  CHECK(error({"--copy-state"}) == "--copy-state '1': copies need another node, and the job has one (--nnodes)");
  const auto says = [](const std::vector<std::string>& flags) {
    const auto notes = plan(flags).notes;
    return std::count(notes.begin(), notes.end(),
                      "--keep-state has no use without --max-restarts: there is no second round");
  };
  CHECK(says({"--keep-state"}) == 1);
  CHECK(says({"--keep-state", "--max-restarts=1"}) == 0);
  CHECK(says({"--max-restarts=0"}) == 0);
}

TEST_CASE("numa binding: next to the GPUs, and without GPUs by turns") {
  Host host = test_host();
  host.topology = [] {
    std::vector<CpuFacts> cpus;
    for (int cpu = 0; cpu < 8; ++cpu) cpus.push_back({cpu, cpu, cpu / 4 * 4, cpu / 4, 0});
    return cpus;
  };
  CHECK(spec({"--nproc=2"}, host).cpus.empty());
  using Sets = std::vector<launcher::CpuSet>;
  CHECK(spec({"--nproc=3", "--numa-binding=exclusive"}, host).cpus == Sets{{0, 1}, {4, 5, 6, 7}, {2, 3}});
  CHECK(plan({"--nproc=1", "--numa-binding=node"}, host).notes ==
        Words{"--numa-binding: no GPU is visible; the workers take the NUMA nodes in turn"});
  CHECK(error({"--numa-binding=numa"}, host) ==
        "--numa-binding 'numa': expected one of node, socket, exclusive, core-complex");
  CHECK_FALSE(resolved({"--numa-binding=node"}, host, true).ok());

  host.gpus = host.listed_gpus = [] {
    GpuInventory inventory;
    inventory.gpus = {{"GPU-a", "0000:02:00.0"}, {"GPU-b", "0000:01:00.0"}};
    return inventory;
  };
  host.numa_node_of_pci = [](const std::string& bus_id) { return bus_id == "0000:02:00.0" ? 1 : 0; };
  CHECK(spec({"--nproc=2", "--numa-binding=node"}, host).cpus == Sets{{4, 5, 6, 7}, {0, 1, 2, 3}});
  CHECK(spec({"--nproc=1", "--numa-binding=socket"}, host).cpus == Sets{{0, 1, 2, 3, 4, 5, 6, 7}});
  host.env["CUDA_VISIBLE_DEVICES"] = "1";
  CHECK(spec({"--nproc=1", "--numa-binding=node"}, host).cpus == Sets{{0, 1, 2, 3}});
  CHECK(error({"--nproc=2", "--numa-binding=node"}, host) ==
        "--numa-binding 'node': 2 workers, but 1 GPU is visible: each worker is bound to the place of its own");
}

TEST_CASE("where nodes meet: a host that is not known yet is awaited, one host may have several names") {
  Host host = test_host();
  host.read_token = [](const std::string&) { return JobSecret::generate(); };
  host.meeting_address = [](const std::string& name) -> Result<MeetingAddress> {
    if (name == "late") return Error{ErrorKind::usage, "there is no host late", EAGAIN};
    if (name == "never") return Error{ErrorKind::usage, "there is no host never"};
    MeetingAddress place = judge_meeting_address({name}, {{"eth0", "10.0.0.1"}, {"ib0", "10.1.0.1"}});
    return place;
  };
  const auto at = [](const std::string& endpoint) {
    return Words{"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=" + endpoint, "--token-file=t"};
  };
  CHECK(plan(at("late"), host).awaited_host == "late");
  CHECK(plan(at("late,late"), host).awaited_host == "late");
  CHECK(plan(at("late,10.0.0.1"), host).awaited_host.empty());  // one is enough
  CHECK(plan(at("10.0.0.1,late"), host).warnings == Words{"--rdzv-endpoint: late is not known; trying the others"});
  CHECK(plan(at("10.0.0.1"), host).awaited_host.empty());
  CHECK(error(at("never"), host) == "--rdzv-endpoint 'never': there is no host never");
  CHECK(spec(at("10.0.0.1,10.1.0.1"), host).nodes.address == "::");
  CHECK(spec(at("10.0.0.1,10.1.0.1"), host).nodes.addresses == Words{"10.0.0.1", "10.1.0.1"});
  CHECK(spec(at("10.0.0.2,10.0.0.3"), host).nodes.address.empty());
  CHECK(error(at("10.0.0.1,10.0.0.3"), host).find("10.0.0.1 is an address of this host, 10.0.0.3 is not") !=
        std::string::npos);
  // etcd is looked for by the agent, as long as one member is known.
  auto etcd = at("10.0.0.2,late");
  etcd[1] = "--rdzv-backend=etcd";
  CHECK(plan(etcd, host).awaited_host.empty());
  CHECK(spec(etcd, host).nodes.etcd->members.at(1).addresses.empty());
  etcd[2] = "--rdzv-endpoint=late";
  CHECK(plan(etcd, host).awaited_host == "late");
}

TEST_CASE("a job of SLURM's may go back into the queue") {
  using namespace std::chrono_literals;
  CHECK_THAT(error({"--requeue=60"}), Contains("there is no job of SLURM's here (SLURM_JOB_ID)"));
  Host host = with_env("SLURM_JOB_ID", "12");
  CHECK_THAT(error({"--requeue=60"}, host), Contains("SLURM does not tell of job 12: there is no scontrol in PATH"));
  host.scontrol = [](const std::vector<std::string>& words, std::chrono::seconds) {
    CHECK(words == std::vector<std::string>{"show", "job", "12", "--oneliner"});
    return Result<std::string>("Requeue=1 BatchFlag=1 RunTime=00:10:00 TimeLimit=01:00:00");
  };
  CHECK_FALSE(plan({}, host).requeue);
  CHECK_THAT(error({"--requeue=soon"}, host), Contains("--requeue 'soon'"));
  const auto alone = plan({"--requeue=60", "--shutdown-timeout=10"}, host).requeue;
  REQUIRE(alone);
  CHECK(alone->ask == 49min);
  CHECK(alone->last == 49min + 45s);
  CHECK(alone->leads);
  host.env["SLURM_NODEID"] = "1";
  CHECK_FALSE(plan({"--requeue=60"}, host).requeue->leads);
}

TEST_CASE("a worker's dtrain does not post for the job that it is in") {
  Host host = with_env("KUBEFLOW_TRAINER_SERVER_URL", "https://trainer/status");
  host.env["KUBEFLOW_TRAINER_SERVER_TOKEN"] = "/token";
  REQUIRE(spec({}, host).status_server);
  CHECK(spec({}, host).status_server->token_file == "/token");
  host.env["DTRAIN_JOB_ID"] = "outer";
  CHECK_FALSE(spec({}, host).status_server);
}

TEST_CASE("no program is a usage error") {
  auto raw = parse(Words{"--nproc=2"});
  REQUIRE(raw.ok());
  auto answer = resolve(*raw, test_host());
  REQUIRE_FALSE(answer.ok());
  CHECK(answer.error().kind == ErrorKind::usage);
  CHECK(answer.error().message.starts_with("no program given: dtrain run [flags] PROGRAM"));
}

}  // namespace dtrain::cli
