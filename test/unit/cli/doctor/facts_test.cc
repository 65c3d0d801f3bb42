#include <unistd.h>

#include "cli/doctor/doctor.h"
#include "cli/doctor/env_report.h"
#include "cli/machine/machine_facts.h"
#include "cli/program/python_facts.h"
#include "cli/run/settings_text.h"
#include "test/support/catch.h"
#include "test/support/golden.h"
#include "test/unit/cli/test_host.h"

namespace dtrain::cli {

TEST_CASE("the variables shown are those that matter to a job") {
  std::vector<Fact> facts = shown_variables({{"PET_NNODES", "1"},
                                             {"HOME", "/root"},
                                             {"WANDB_API_KEY", "x"},
                                             {"NCCL_DEBUG", "INFO"},
                                             {"TORCH_TOKEN", "x"},
                                             {"OMPI_MCA_orte_precondition_transports", "0123-4567"},
                                             {"OMPI_ARGV", "x"},
                                             {"OMPI_COMM_WORLD_RANK", "0"}});
  REQUIRE(facts.size() == 4);
  CHECK(facts[0].name == "NCCL_DEBUG");
  CHECK(facts[1].name == "OMPI_COMM_WORLD_RANK");
  CHECK(facts[2].name == "PET_NNODES");
  CHECK(facts[3].value == "<redacted>");
}

TEST_CASE("the report for bugs as text and as JSON") {
  std::vector<FactGroup> groups = {{"dtrain", {{"dtrain", "0.1.0"}, {"containment", "cgroup, subreaper"}}},
                                   {"variables", {{"NCCL_DEBUG", "INFO"}, {"PATH", "/a\n/b"}}}};
  test::check_golden("cli/env.txt", env_text(groups));
  test::check_golden("cli/env.json", env_json(groups));
}

TEST_CASE("settings as text and as JSON") {
  std::vector<Setting> settings = {{"--nproc", "2", "PET_NPROC_PER_NODE"}, {"--role", "a \"b\"\n", "flag"}};
  CHECK(all_settings(settings) == "  --nproc  2         PET_NPROC_PER_NODE\n  --role   'a \"b\"\n'  flag\n");
  settings.push_back({"--tee", "0", "default"});
  CHECK(chosen_settings(settings) ==
        "  --nproc  2         PET_NPROC_PER_NODE\n  --role   'a \"b\"\n'  flag\n"
        "  1 more have their defaults (--print-config=all)\n");
  settings.pop_back();
  test::check_golden("cli/print-config.json", settings_json(settings));
}

TEST_CASE("printing the configuration needs no program and judges no value") {
  Host host = test_host();
  host.env["DTRAIN_ROLE"] = "trainer";
  auto raw = parse(std::vector<std::string>{"--nproc=none", "--print-config=json"});
  REQUIRE(raw.ok());
  auto plan = resolve(*raw, host);
  REQUIRE(plan.ok());
  CHECK(plan->print_config == Plan::PrintConfig::json);
  REQUIRE(plan->settings.size() > 10);
  CHECK(plan->settings[0].value == "none");
  CHECK(plan->settings[0].origin == "flag");
  host.env["DTRAIN_PRINT_CONFIG"] = "1";
  CHECK(resolve(*parse(std::vector<std::string>{}), host)->print_config == Plan::PrintConfig::text);
  CHECK(resolve(*parse(std::vector<std::string>{"--print-config=all"}), host)->print_config == Plan::PrintConfig::all);
  host.env["DTRAIN_PRINT_CONFIG"] = "xml";
  CHECK_FALSE(resolve(*parse(std::vector<std::string>{}), host).ok());
}

TEST_CASE("limits of cgroups") {
  CHECK(*parse_cpu_max("150000 100000\n") == 1.5);
  CHECK_FALSE(parse_cpu_max("max 100000\n"));
  CHECK_FALSE(parse_cpu_max(""));
  CHECK(*parse_memory_max("1073741824\n") == 1073741824.0);
  CHECK_FALSE(parse_memory_max("max\n"));
}

TEST_CASE("who listens is found by the port's sockets") {
  const std::string table =
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
      "   0: 0100007F:72D8 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 100\n"
      "   1: 0100007F:72D8 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0 100\n";
  CHECK(listening_inodes(table, 29400) == std::vector<std::string>{"4711"});
  CHECK(listening_inodes(table, 29500).empty());
  CHECK(listening_inodes("", 29400).empty());
}

TEST_CASE("what Python answers") {
  PythonFacts facts =
      python_answer("/shims/python3", "/opt/bin/python3\n3.11.2\n/opt/torch/__init__.py\n2.15.0+cpu\n\n\n");
  CHECK(facts.executable == "/opt/bin/python3");
  CHECK(facts.torch == "2.15.0+cpu");
  CHECK(facts.cuda.empty());
  CHECK_FALSE(python_answer("/bin/false", "").problem.empty());
}

TEST_CASE("torch is judged by its version and by the GPUs") {
  auto torch = [](const std::string& version, const std::string& cuda, int gpus) {
    PythonFacts facts;
    facts.command = facts.executable = "/usr/bin/python3";
    facts.torch_file = "/lib/torch/__init__.py";
    facts.torch = version;
    facts.cuda = cuda;
    return judge_python(facts, gpus).back();
  };
  using Level = Finding::Level;
  CHECK(torch("2.15.0+cpu", "", 0).level == Level::ok);
  CHECK(torch("2.15.0+cpu", "", 8).level == Level::warn);
  CHECK(torch("2.11.0+cu130", "13.0", 8).level == Level::ok);
  CHECK(torch("2.15.0+cu132", "13.2", 0).level == Level::ok);
  CHECK(torch("2.4.1", "12.1", 8).level == Level::warn);
  CHECK(torch("rubbish", "12.1", 8).level == Level::warn);
  PythonFacts none;
  none.problem = "no Python";
  CHECK(judge_python(none, 0).size() == 1);
  PythonFacts shim{.command = "/shims/python3",
                   .executable = "/opt/python3",
                   .version = "3.11.2",
                   .torch_file = "",
                   .torch = "",
                   .cuda = "",
                   .hip = "",
                   .problem = ""};
  CHECK(judge_python(shim, 0)[0].detail == "/opt/python3 (3.11.2), through /shims/python3");
  CHECK(judge_python(shim, 0)[1].level == Level::warn);
}

TEST_CASE("a check that hangs or crashes is one finding") {
  Check fine = {"fine", [] { return Findings{{Finding::Level::ok, "fine", "a\nb \xff", "c"}}; }};
  Check hangs = {"hangs", [] { return pause(), Findings{}; }};
  Check crashes = {"crashes", []() -> Findings { _exit(3); }};
  Findings findings = examine({fine, hangs, crashes}, 500);
  REQUIRE(findings.size() == 3);
  CHECK(findings[0].cure == "c");
  CHECK(findings[1].detail == "no answer within 0 s");
  CHECK(findings[2].detail == "the check itself failed");
}

}  // namespace dtrain::cli
