// Which of several reports of one job stays in the file that all of its agents name.
#include "launcher/report/report_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "launcher/base/small_file.h"
#include "rendezvous/base/unique_fd.h"
#include "test/support/catch.h"
#include "test/support/temp_folder.h"

using namespace dtrain;
using namespace dtrain::launcher;
namespace fs = std::filesystem;

namespace {
const auto kEarlier = std::chrono::system_clock::now() - std::chrono::seconds(60);
const auto kLater = std::chrono::system_clock::now() + std::chrono::seconds(60);

size_t files_in(const fs::path& folder) {
  return size_t(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}
}  // namespace

TEST_CASE("the report of the node that failed stays, whoever comes first") {
  test::TempFolder folder;
  const std::string path = (folder.path() / "report").string();
  CHECK(*write_report_file(path, "elsewhere", false, kEarlier));
  CHECK(*write_report_file(path, "first hand", true, kEarlier));
  CHECK_FALSE(*write_report_file(path, "elsewhere", false, kEarlier));
  CHECK(read_small_file(path) == "first hand");
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("the report of a job before is replaced") {
  test::TempFolder folder;
  const std::string path = (folder.path() / "report").string();
  std::ofstream(path) << "old and long";
  CHECK(*write_report_file(path, "new", false, kLater));
  CHECK(read_small_file(path) == "new");
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("a link to the report is followed, what is no file is written to, no folder is an error") {
  test::TempFolder folder;
  const fs::path path = folder.path() / "report";
  std::ofstream(path) << "old";
  fs::create_symlink("report", folder.path() / "link");
  CHECK(*write_report_file((folder.path() / "link").string(), "new", true, kEarlier));
  CHECK(fs::is_symlink(folder.path() / "link"));
  CHECK(read_small_file(path.string()) == "new");
  CHECK(*write_report_file("/dev/null", "new", true, kEarlier));
  CHECK_FALSE(fs::is_regular_file("/dev/null"));
  const auto nowhere = write_report_file((folder.path() / "none/report").string(), "new", true, kEarlier);
  REQUIRE_FALSE(nowhere.ok());
  CHECK(nowhere.error().message.find("cannot write the report ") == 0);
}

TEST_CASE("what has the draft's name already, and other names of the old report's file, stay as they were") {
  const auto lay_link = GENERATE(::symlink, ::link);
  test::TempFolder folder;
  const std::string path = folder / "report", victim = folder / "victim", kept = folder / "kept";
  std::ofstream(victim) << "not ours";
  std::ofstream(path) << "old";
  REQUIRE(::link(path.c_str(), kept.c_str()) == 0);
  REQUIRE(lay_link(victim.c_str(), fmt::format("{}.{}.tmp", path, ::getpid()).c_str()) == 0);
  CHECK(*write_report_file(path, "new", true, kEarlier));
  CHECK(read_small_file(path) == "new");
  CHECK(read_small_file(victim) == "not ours");
  CHECK(read_small_file(kept) == "old");
  CHECK(files_in(folder.path()) == 4);  // these, and the link
}

TEST_CASE("a FIFO gets a text of any length while somebody reads it, and nobody waits for a reader") {
  test::TempFolder folder;
  const std::string path = folder / "fifo";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  const auto alone = write_whole_file("the error file", path, "text");
  REQUIRE_FALSE(alone.ok());
  CHECK(alone.error().message == "cannot write the error file " + path + ": nobody reads from it");

  const std::string text(300'000, 'x');
  UniqueFd reader(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  ::fcntl(reader.get(), F_SETFL, 0);
  std::string seen;
  std::thread reads([&] {
    char buffer[4096];
    // The FIFO is at its end until somebody has opened it for writing.
    for (ssize_t n; seen.size() < text.size() && (n = ::read(reader.get(), buffer, sizeof buffer)) >= 0;)
      seen.append(buffer, size_t(n));
  });
  const auto written = write_whole_file("the error file", path, text);
  reads.join();
  CHECK(written.ok());
  CHECK(seen == text);
}

TEST_CASE("a FIFO whose reader does not read, and a full disk, are one line") {
  test::TempFolder folder;
  const std::string path = folder / "fifo";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  const UniqueFd reader(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  const auto stuck = write_whole_file("the error file", path, std::string(1 << 20, 'x'));
  REQUIRE_FALSE(stuck.ok());
  CHECK(stuck.error().message.find("bytes were not read in 5 s") != std::string::npos);
  const auto full = write_report_file("/dev/full", "text", true, kEarlier);
  REQUIRE_FALSE(full.ok());
  CHECK(full.error().message == "cannot write the report /dev/full: No space left on device");
}
