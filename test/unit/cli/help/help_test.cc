#include "cli/help/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "cli/base/layout.h"
#include "cli/base/text.h"
#include "cli/base/version.h"
#include "cli/doctor/doctor.h"
#include "cli/help/completion.h"
#include "cli/help/man.h"
#include "cli/run/dry_run.h"
#include "cli/table/command_table.h"
#include "cli/table/flags.h"
#include "test/support/catch.h"
#include "test/support/golden.h"
#include "test/unit/cli/test_host.h"

namespace dtrain::cli {
namespace {

std::size_t longest_line(const std::string& text) {
  std::size_t longest = 0;
  for (const std::string& line : split(text, '\n')) longest = std::max(longest, line.size());
  return longest;
}

}  // namespace

TEST_CASE("help texts are as reviewed, and fit their width") {
  test::check_golden("cli/help.txt", short_help());
  test::check_golden("cli/help-run.txt", common_help());
  test::check_golden("cli/help-run-all.txt", run_help());
  test::check_golden("cli/help-tee.txt", *help_on("--tee"));
  test::check_golden("cli/help-nproc.txt", *help_on("nproc"));
  test::check_golden("cli/help-tee-40.txt", *help_on("--tee", 40));
  test::check_golden("cli/help-40.txt", short_help(40));
  test::check_golden("cli/help-run-40.txt", common_help(40));
  for (std::size_t width : {40, 57, 80}) {
    CHECK(longest_line(short_help(width)) <= width);
    CHECK(longest_line(common_help(width)) <= width);
    CHECK(longest_line(run_help(width)) <= width);
    CHECK(longest_line(torchrun_help(width)) <= width);
    for (const std::string& word : help_words()) CHECK(longest_line(*help_on(word, width)) <= width);
  }
}

TEST_CASE("docs/environment.md has the variables of every flag, and no others") {
  const char* source = std::getenv("DTRAIN_SOURCE_DIR");
  REQUIRE(source != nullptr);
  std::ifstream file(std::string(source) + "/docs/environment.md");
  std::vector<std::string> written, expected;
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("| `--")) written.push_back(line);
  for (const Flag& row : flags()) {
    std::string names;
    for (const std::string& name : {dtrain_variable(row), pet_variable(row), std::string(row.also)})
      if (!name.empty()) names += (names.empty() ? "`" : ", `") + name + "`";
    if (!names.empty()) expected.push_back("| `" + spelled(row) + "` | " + names + " |");
  }
  CHECK(written == expected);
}

TEST_CASE("the first help of dtrain and of run fit one screen") {
  constexpr int kRows = 24 - 1;  // the prompt takes one
  for (const std::string& text : {short_help(), common_help()})
    CHECK(std::count(text.begin(), text.end(), '\n') <= kRows);
}

TEST_CASE("the width is that of COLUMNS, else that of the terminal, within 40 and 80") {
  CHECK(help_width("", 0) == 80);
  CHECK(help_width("", 60) == 60);
  CHECK(help_width("50", 60) == 50);
  CHECK(help_width("7", 60) == 40);
  CHECK(help_width("200", 0) == 80);
  CHECK(help_width("wide", 60) == 60);
  CHECK(help_width("0", 0) == 80);
}

TEST_CASE("docs/cli.md is what the tables say") {
  INFO("DTRAIN_UPDATE_GOLDEN=1 rewrites it");
  test::check_golden("../../docs/cli.md", markdown_help());
}

TEST_CASE("completions and the manual page are what the tables say") {
  test::check_golden("cli/completion.bash", bash_completion());
  test::check_golden("cli/completion.zsh", zsh_completion());
  test::check_golden("cli/completion.fish", fish_completion());
  test::check_golden("cli/dtrain.1", man_page());
  CHECK(*completion_script("zsh") == zsh_completion());
  CHECK(completion_script("").error().message == "completions for which shell? dtrain completion bash, zsh or fish");
  CHECK(completion_script("tcsh").error().message == "shell 'tcsh': expected one of bash, zsh, fish");
}

TEST_CASE("the choices in the table are those that the command line takes") {
  Host host = test_host({{"train", executable_file()}});
  host.gpus = [] { return GpuInventory{.gpus = {Gpu{"GPU-1", "0000:01:00.0"}}, .problem = ""}; };
  host.topology = [] { return std::vector<CpuFacts>{CpuFacts{}}; };
  for (const Flag& row : flags()) {
    if (row.choices.empty() || row.is_switch() || row.id == FlagId::print_completion || row.compat != Compat::none)
      continue;
    for (const std::string& choice : split(row.choices, ',')) {
      INFO(spelled(row) << " " << choice);
      auto raw = parse(std::vector<std::string>{spelled(row), choice, "./train"});
      REQUIRE(raw.ok());
      const auto plan = resolve(*raw, host);
      // An engine that is known and is not there.
      CHECK((plan.ok() || (row.id == FlagId::engine && plan.error().message.starts_with("--engine " + choice + ": "))));
    }
  }
}

TEST_CASE("torchrun's help lists all flags, torchrun's by its names in both spellings") {
  const std::string text = torchrun_help();
  const std::size_t added = text.find("\nFlags that dtrain adds:\n");
  REQUIRE(added != std::string::npos);
  const auto place = [&](const std::string& name) {
    const std::size_t at = std::min({text.find(name + " "), text.find(name + "\n"), text.find(name + "[")});
    INFO(name);
    CHECK(at != std::string::npos);
    return at;
  };
  for (const Flag& row : flags()) {
    const std::string torchruns = torchrun_name(row);
    if (row.id == FlagId::use_env) continue;
    if (row.id == FlagId::config || row.id == FlagId::backend) {
      CHECK(text.find(spelled(row) + " ") == std::string::npos);
      continue;
    }
    if (torchruns.empty()) {
      CHECK(place(spelled(row)) > added);
      continue;
    }
    std::string other = torchruns;
    std::replace(other.begin(), other.end(), '-', '_');
    CHECK(place("--" + other) < added);
    CHECK(text.find(other == torchruns ? "--" + torchruns : "--" + torchruns + ",") < added);
  }
  CHECK(torchrun_help(kWidest, CalledAs::launch).find("--use-env") != std::string::npos);
}

TEST_CASE("every command says what it does") {
  for (const Command& row : commands()) {
    CHECK(find_command(row.name) == &row);
    CHECK(row.help.size() <= 64);
    CHECK(help_on(row.name)->find(fmt::format("dtrain {}", row.name)) != std::string::npos);
  }
  CHECK(find_command("rnu") == nullptr);
}

TEST_CASE("help is found by any name of a flag or command") {
  CHECK(*help_on("-t") == *help_on("--tee"));
  CHECK(*help_on("tee") == *help_on("--tee"));
  CHECK(*help_on("nproc_per_node") == *help_on("--nproc"));
  CHECK(*help_on("max-r") == *help_on("--max-restarts"));
  CHECK(*help_on("run") == run_help());
  CHECK(help_on("exit-codes")->starts_with("`dtrain run` exits"));
  CHECK(help_on("doctor")->starts_with("Usage: dtrain doctor"));
  CHECK(help_on("dcotor").error().message == "no help on 'dcotor'; did you mean doctor?");
  CHECK(help_on("restart").error().message == "no help on 'restart'; did you mean max-restarts?");
  CHECK(help_on("").error().message ==
        "no help on ''; `dtrain run --help=all` lists the flags, `dtrain help` the commands");
  CHECK(help_on("---").error().kind == ErrorKind::usage);
}

TEST_CASE("a dry run shows settings, environments and command lines") {
  auto raw =
      parse(std::vector<std::string>{"--nproc=2", "-t", "0:3", "./train", "--lr=0.01", "--out=run ${local_rank}"});
  REQUIRE(raw.ok());
  Host host = test_host({{"train", executable_file()}});
  host.env["PET_MAX_RESTARTS"] = "3";
  auto plan = resolve(*raw, host);
  REQUIRE(plan.ok());
  test::check_golden("cli/dry-run.txt", describe(*plan, host.env));
  host.env["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "0";  // passed on, so not dtrain's to say
  CHECK(describe(*plan, host.env).find("ASYNC_ERROR") == std::string::npos);
}

TEST_CASE("the doctor's report and verdict") {
  using Level = Finding::Level;
  std::vector<Finding> fine = {{Level::ok, "cores", "8 usable by this process", ""}};
  CHECK(verdict(fine) == 0);
  CHECK(report(fine) == "ok    cores             8 usable by this process\n\nready to run jobs\n");
  std::vector<Finding> warned = fine;
  warned.push_back({Level::warn, "torch", "not found", "pip install torch"});
  CHECK(verdict(warned) == 0);
  std::vector<Finding> failed = warned;
  failed.push_back({Level::fail, "loopback", std::string("127.0.0.1: Network is unreachable"), "ip link set lo up"});
  CHECK(verdict(failed) == 1);
  test::check_golden("cli/doctor.txt", report(failed));
  test::check_golden("cli/doctor-40.txt", report(failed, 40));
  CHECK(longest_line(report(failed)) <= 80);
  CHECK(longest_line(report(failed, 40)) <= 40);
}

TEST_CASE("the version is on the first line") {
  CHECK(version_line().starts_with("dtrain "));
  CHECK(version_text().starts_with(version_line()));
  CHECK(version_text().find("\ncompiler  ") != std::string::npos);
}

}  // namespace dtrain::cli
