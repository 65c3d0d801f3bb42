#include "launcher/logs/log_finder.h"

#include <filesystem>
#include <fstream>

#include "test/support/catch.h"
#include "test/support/temp_folder.h"

namespace dtrain::launcher {
namespace {

void file(const std::string& path) {
  std::filesystem::create_directories(path.substr(0, path.rfind('/')));
  std::ofstream(path) << "x\n";
}

}  // namespace

TEST_CASE("names of rounds") {
  LogAttempt attempt;
  REQUIRE(parse_attempt("attempt_12", attempt));
  CHECK((attempt.restart_count == 12 && attempt.again == 1));
  REQUIRE(parse_attempt("attempt_0_3", attempt));
  CHECK((attempt.restart_count == 0 && attempt.again == 3));
  for (const char* bad : {"attempt_", "attempt_x", "attempt_1_", "attempt_-1", "attempt_1_0", "attempt_1_2_3", "x", ""})
    CHECK_FALSE(parse_attempt(bad, attempt));
}

TEST_CASE("rounds come in their order, files by rank") {
  test::TempFolder folder;
  const std::string job = folder / "job_abc";
  for (const char* name : {"attempt_10/0/stdout.log", "attempt_2/10/stderr.log", "attempt_2/9/stdout.log",
                           "attempt_2/9/stderr.log", "attempt_2/9/error.json", "attempt_2/filtered_stdout.log",
                           "attempt_2_2/0/stdout.log", "attempt_2/x/stdout.log"})
    file(job + "/" + name);
  for (const std::string& from : {job, job.substr(0, job.rfind('/'))}) {
    auto logs = find_logs(from);
    REQUIRE(logs.ok());
    CHECK(logs->path == job);
    CHECK(logs->jobs == 1);
    std::string found;
    for (const LogAttempt& attempt : logs->attempts)
      for (const LogFile& log : attempt.files) found += log.path.substr(job.size()) + " ";
    CHECK(found ==
          "/attempt_2/9/stdout.log /attempt_2/9/stderr.log /attempt_2/10/stderr.log /attempt_2_2/0/stdout.log "
          "/attempt_10/0/stdout.log ");
  }
}

TEST_CASE("links in a folder of logs lead nowhere") {
  test::TempFolder folder;
  const std::string job = folder / "job_abc", elsewhere = folder / "elsewhere";
  file(job + "/attempt_0/0/stdout.log");
  file(elsewhere + "/1/stdout.log");
  file(elsewhere + "/secret");
  std::filesystem::create_symlink(elsewhere + "/secret", job + "/attempt_0/0/stderr.log");
  std::filesystem::create_directory_symlink(elsewhere + "/1", job + "/attempt_0/1");
  std::filesystem::create_directory_symlink(elsewhere, job + "/attempt_1");
  auto logs = find_logs(job);
  REQUIRE(logs.ok());
  REQUIRE(logs->attempts.size() == 1);
  REQUIRE(logs->attempts[0].files.size() == 1);
  CHECK(logs->attempts[0].files[0].path == job + "/attempt_0/0/stdout.log");
}

TEST_CASE("of several jobs the newest counts") {
  test::TempFolder folder;
  file(folder / "b_1/attempt_0/0/stdout.log");
  file(folder / "a_2/attempt_0/0/stdout.log");
  const auto now = std::filesystem::file_time_type::clock::now();
  std::filesystem::last_write_time(folder / "a_2", now + std::chrono::hours(1));
  auto logs = find_logs(folder / "");
  REQUIRE(logs.ok());
  CHECK(logs->path.ends_with("a_2"));
  CHECK(logs->jobs == 2);
}

TEST_CASE("a folder without logs is an error") {
  test::TempFolder folder;
  CHECK(find_logs(folder / "none").error().message == folder / "none is not a folder");
  file(folder / "some/file");
  CHECK(find_logs(folder / "some").error().message.find("has no logs of a job") != std::string::npos);
}

}  // namespace dtrain::launcher
