#include "cli/help.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "cli/doctor.h"
#include "cli/dry_run.h"
#include "cli/flags.h"
#include "cli/text.h"
#include "cli/version.h"
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

std::string whole_file(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("help texts are as reviewed, and fit 80 columns") {
  test::check_golden("cli/help.txt", short_help());
  test::check_golden("cli/help-run.txt", run_help());
  test::check_golden("cli/help-tee.txt", *help_on("--tee"));
  test::check_golden("cli/help-nproc.txt", *help_on("nproc"));
  CHECK(longest_line(short_help()) <= 80);
  CHECK(longest_line(run_help()) <= 80);
  for (const Flag& row : flags()) CHECK(longest_line(*help_on(row.name)) <= 80);
}

TEST_CASE("docs/cli.md is what the flag table says") {
  const char* source = std::getenv("DTRAIN_SOURCE_DIR");
  REQUIRE(source != nullptr);
  INFO("dtrain help --markdown > docs/cli.md");
  CHECK(markdown_help() == whole_file(std::string(source) + "/docs/cli.md"));
}

TEST_CASE("help is found by any name of a flag or command") {
  CHECK(*help_on("-t") == *help_on("--tee"));
  CHECK(*help_on("tee") == *help_on("--tee"));
  CHECK(*help_on("nproc_per_node") == *help_on("--nproc"));
  CHECK(*help_on("max-r") == *help_on("--max-restarts"));
  CHECK(*help_on("run") == run_help());
  CHECK(help_on("doctor")->starts_with("Usage: dtrain doctor"));
  CHECK(help_on("dcotor").error().message == "no help on 'dcotor'; did you mean doctor?");
  CHECK(help_on("").error().message == "no help on ''; `dtrain run --help` lists the flags");
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
  test::check_golden("cli/dry-run.txt", describe(*plan));
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
  CHECK(longest_line(report(failed)) <= 80);
}

TEST_CASE("the version is on the first line") {
  CHECK(version_line().starts_with("dtrain "));
  CHECK(version_text().starts_with(version_line()));
  CHECK(version_text().find("\ncompiler  ") != std::string::npos);
}

}  // namespace dtrain::cli
