// A folder that nobody else may enter, and that goes when its owners are gone, or later.
#include "launcher/base/private_folder.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include "test/support/catch.h"
#include "test/support/temp_folder.h"

using namespace dtrain;
using launcher::PrivateFolder;
namespace fs = std::filesystem;

namespace {

struct Base : test::TempFolder {
  Base() {
    if (const char* before = std::getenv("TMPDIR")) before_ = before;
    ::setenv("TMPDIR", path().c_str(), 1);
  }
  Base(const Base&) = delete;
  Base& operator=(const Base&) = delete;
  ~Base() { before_ ? ::setenv("TMPDIR", before_->c_str(), 1) : ::unsetenv("TMPDIR"); }

 private:
  std::optional<std::string> before_;
};

}  // namespace

TEST_CASE("private folder: places for temporary files are absolute, and each is there once") {
  const Base base;
  const auto here = fs::current_path();
  using Places = std::vector<std::string>;
  CHECK(launcher::temporary_folders() == Places{base.path().string(), "/tmp", "/var/tmp", here.string()});
  ::setenv("TMPDIR", "scratch", 1);
  CHECK(launcher::temporary_folders().front() == (here / "scratch").string());
  for (const char* value : {"", "/tmp"}) {
    ::setenv("TMPDIR", value, 1);
    CHECK(launcher::temporary_folders() == Places{"/tmp", "/var/tmp", here.string()});
  }
}

TEST_CASE("private folder: the next place is taken where TMPDIR is none") {
  const Base base;
  ::setenv("TMPDIR", (base / "none").c_str(), 1);
  auto made = PrivateFolder::make("kind");
  REQUIRE(made.ok());
  CHECK(fs::path(made->path()).parent_path() == "/tmp");
  made->remove();
}

TEST_CASE("private folder: what was left by the dead is removed by the next one, and nothing else") {
  const Base base;
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
}

TEST_CASE("private folder: that of another host is never removed, as its lock may not be seen here") {
  const Base base;
  std::string path;
  {
    const auto other = PrivateFolder::make("kind", "n1");
    REQUIRE(other.ok());
    path = other->path();
  }
  REQUIRE(PrivateFolder::make("kind", "n1-2").ok());
  CHECK(fs::exists(path));
  REQUIRE(PrivateFolder::make("kind", "n1").ok());
  CHECK_FALSE(fs::exists(path));
}

TEST_CASE("private folder: one that cannot be locked is not left behind") {
  const Base base;
  auto first = PrivateFolder::make("kind");  // what a sanitizer looks up once, it looks up with a descriptor
  REQUIRE(first.ok());
  first->remove();
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit none{0, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  const auto made = PrivateFolder::make("kind");
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  REQUIRE_FALSE(made.ok());
  CHECK(made.error().errno_value == EMFILE);
  CHECK(fs::is_empty(base.path()));
}
