// What is opened where a file of logs was found a moment ago.
#include "cli/logs/logs_reader.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "test/support/catch.h"
#include "test/support/temp_folder.h"

namespace dtrain::cli {
namespace {

Result<LogReader> open(const std::string& path) { return LogReader::open({path, 0, launcher::Streams::out, 0}, {}); }

}  // namespace

TEST_CASE("logs: a link is not followed and a FIFO not waited for, though they came after the search") {
  test::TempFolder folder;
  const std::string file = folder / "file", link = folder / "link", fifo = folder / "fifo";
  std::ofstream(file) << "text\n";
  CHECK(open(file).ok());
  std::filesystem::create_symlink(file, link);
  const auto linked = open(link);
  REQUIRE_FALSE(linked.ok());
  CHECK(linked.error().message == link + " is a link: not followed");
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  const auto piped = open(fifo);
  REQUIRE_FALSE(piped.ok());
  CHECK(piped.error().message == fifo + " is not a regular file");
}

}  // namespace dtrain::cli
