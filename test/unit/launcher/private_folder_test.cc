// A folder that nobody else may enter, and that goes when its owners are gone, or later.
#include "launcher/private_folder.h"

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include "test/support/catch.h"
#include "test/support/temp_folder.h"

using namespace dtrain;
using launcher::PrivateFolder;
namespace fs = std::filesystem;

TEST_CASE("private folder: what was left by the dead is removed by the next one, and nothing else") {
  const test::TempFolder base;
  const char* before = std::getenv("TMPDIR");
  const std::string kept = before != nullptr ? before : "";
  ::setenv("TMPDIR", base.path().c_str(), 1);

  auto first = PrivateFolder::make("kind");
  REQUIRE(first.ok());
  const std::string path = first->path();
  struct stat facts {};
  REQUIRE(::stat(path.c_str(), &facts) == 0);
  CHECK((facts.st_mode & 0777) == 0700);
  fs::create_directory(path + "/data");
  std::ofstream(path + "/data/file") << "x";
  {
    // The first one lives.
    auto second = PrivateFolder::make("kind");
    REQUIRE(second.ok());
    CHECK(fs::exists(path + "/data/file"));
    second->remove();
    CHECK_FALSE(fs::exists(second->path()));
  }
  // It dies without removing anything.
  first = Error{ErrorKind::system, "killed"};
  CHECK(PrivateFolder::make("another").ok());
  CHECK(fs::exists(path));
  CHECK(PrivateFolder::make("kind").ok());
  CHECK_FALSE(fs::exists(path));

  before != nullptr ? ::setenv("TMPDIR", kept.c_str(), 1) : ::unsetenv("TMPDIR");
}
