// Files of a job in a folder of its own.
#include "launcher/ship/ship_place.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <filesystem>

#include "launcher/base/folders.h"
#include "launcher/ship/ship_content.h"
#include "test/support/catch.h"
#include "test/support/temp_folder.h"

using namespace dtrain;
using namespace dtrain::launcher;
using test::TempFolder;

namespace {

constexpr const char* kAbcPlaced = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

unsigned mode_placed(const std::string& path) {
  struct stat facts {};
  return ::stat(path.c_str(), &facts) == 0 ? facts.st_mode & 07777 : 0;
}

}  // namespace

TEST_CASE("a shipped file is its owner's alone, and can be executed if it could be") {
  const TempFolder folder;
  const UniqueFd root = open_folder(folder.path());
  CHECK(make_ship_file(root.get(), {"a/b/run", 0, kAbcPlaced, true}).ok());
  CHECK(make_ship_file(root.get(), {"a/b/data", 0, kAbcPlaced, false}).ok());
  CHECK(mode_placed(folder / "a") == 0700);
  CHECK(mode_placed(folder / "a/b/run") == 0700);
  CHECK(mode_placed(folder / "a/b/data") == 0600);
  CHECK_FALSE(make_ship_file(root.get(), {"a/b/data", 0, kAbcPlaced, false}).ok());
}

TEST_CASE("no shipped file lies outside of its folder") {
  const TempFolder folder, other;
  const UniqueFd root = open_folder(folder.path());
  std::filesystem::create_directory_symlink(other.path(), folder / "link");
  std::filesystem::create_symlink(other / "new", folder / "file");
  for (const char* path : {"../x", "/tmp/x", "link/x", "file", "a/../../x", ""})
    CHECK_FALSE(make_ship_file(root.get(), {path, 0, kAbcPlaced, false}).ok());
  CHECK(std::filesystem::is_empty(other.path()));
}

TEST_CASE("a file that a host has is the one that is wanted") {
  const TempFolder folder;
  folder.write("a", "abc");
  CHECK(is_ship_file(folder / "a", {"a", 3, kAbcPlaced, false}));
  CHECK_FALSE(is_ship_file(folder / "a", {"a", 3, kAbcPlaced, true}));
  CHECK_FALSE(is_ship_file(folder / "a", {"a", 4, kAbcPlaced, false}));
  CHECK_FALSE(is_ship_file(folder / "a", {"a", 3, std::string(64, '0'), false}));
  CHECK_FALSE(is_ship_file(folder / "none", {"none", 3, kAbcPlaced, false}));
  CHECK_FALSE(is_ship_file(folder.path(), {"x", 3, kAbcPlaced, false}));
}

TEST_CASE("a copy has the bytes, or is refused") {
  const TempFolder folder;
  const UniqueFd root = open_folder(folder.path());
  folder.write("a", "abc");
  const auto good = make_ship_file(root.get(), {"good", 3, kAbcPlaced, false});
  CHECK(copy_ship_file(folder / "a", {"good", 3, kAbcPlaced, false}, good->get()).ok());
  CHECK(folder.read("good") == "abc");
  const auto bad = make_ship_file(root.get(), {"bad", 3, kAbcPlaced, false});
  CHECK_FALSE(copy_ship_file(folder / "a", {"bad", 3, std::string(64, '0'), false}, bad->get()).ok());
}

TEST_CASE("a full disk is an error") {
  const UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  const auto done = write_content(full.get(), "x", "data");
  REQUIRE_FALSE(done.ok());
  CHECK(done.error().message == "data: No space left on device");
}
