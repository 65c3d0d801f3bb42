// Which files of a folder go along.
#include "launcher/ship/ship_list.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "test/support/catch.h"
#include "test/support/temp_folder.h"

using namespace dtrain;
using namespace dtrain::launcher;
using Catch::Contains;
using test::TempFolder;

namespace {

constexpr const char* kAbcListed = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

struct Work {
  TempFolder folder{};

  Work() {
    for (const char* name : {"src", "src/deep", "src/__pycache__", "src/.git"})
      std::filesystem::create_directory(folder.path() / name);
    for (const char* name : {"train", "src/b.py", "src/deep/c", "src/__pycache__/b.pyc", "src/.git/config", "src/.env"})
      folder.write(name, "abc");
    ::chmod((folder / "train").c_str(), 0755);
  }

  Result<ShipList> list(std::vector<std::string> paths, std::uint64_t most = 1000) const {
    return list_ship_files({folder.path().string(), std::move(paths), most, {folder / "token"}});
  }
  std::string refusal(std::vector<std::string> paths, std::uint64_t most = 1000) const {
    const auto listed = list(std::move(paths), most);
    REQUIRE_FALSE(listed.ok());
    CHECK(listed.error().kind == ErrorKind::usage);
    return listed.error().message;
  }
};

}  // namespace

TEST_CASE("files and folders are listed with their contents") {
  const Work work;
  const auto listed = work.list({"src", "./train", "src/deep/../b.py", (work.folder / "src/deep/")});
  REQUIRE(listed.ok());
  CHECK(listed->files == std::vector<ShipFile>{{"src/b.py", 3, kAbcListed, false},
                                               {"src/deep/c", 3, kAbcListed, false},
                                               {"train", 3, kAbcListed, true}});
  CHECK(listed->bytes == 9);
  CHECK(listed->left_out == 3);
  CHECK(work.list({"src/.env"})->files[0].path == "src/.env");
  CHECK(work.list({"."})->files.size() == 3);
}

TEST_CASE("what is not below the folder does not go along") {
  const Work work;
  for (const char* path : {"/etc/passwd", "../x", "src/../../x", ".."})
    CHECK_THAT(work.refusal({path}), Contains("is not below"));
  CHECK_THAT(work.refusal({"none"}), Contains("none: No such file"));
  ::mkfifo((work.folder / "src/pipe").c_str(), 0600);
  CHECK_THAT(work.refusal({"src"}), Contains("src/pipe is neither a file nor a folder"));
}

TEST_CASE("links go along as what they lead to, if that is in the folder") {
  const Work work;
  std::filesystem::create_symlink("b.py", work.folder.path() / "src/link");
  CHECK(work.list({"src"})->files.size() == 3);
  std::filesystem::create_symlink("/etc/passwd", work.folder.path() / "src/deep/out");
  CHECK_THAT(work.refusal({"src"}), Contains("src/deep/out is a link that leads out of src"));
  std::filesystem::remove(work.folder.path() / "src/deep/out");
  std::filesystem::create_symlink("../train", work.folder.path() / "src/deep/up");
  CHECK_FALSE(work.refusal({"src"}).empty());
  std::filesystem::remove(work.folder.path() / "src/deep/up");
  std::filesystem::create_symlink("..", work.folder.path() / "src/deep/circle");
  CHECK_THAT(work.refusal({"src"}), Contains("is a link to a folder"));
}

TEST_CASE("a token stays where it is, by whatever name") {
  const Work work;
  work.folder.write("token", "secret");
  CHECK_THAT(work.refusal({"token"}), Contains("is a secret of yours"));
  std::filesystem::create_hard_link(work.folder / "token", work.folder / "src/harmless");
  CHECK_THAT(work.refusal({"src"}), Contains("src/harmless is a secret of yours"));
}

TEST_CASE("more than the limit names the largest file") {
  const Work work;
  work.folder.write("src/large", std::string(2000, 'x'));
  CHECK_THAT(work.refusal({"src", "train"}), Contains("--ship-limit") && Contains("the largest is src/large"));
  CHECK(work.list({"src"}, 2006).ok());
  CHECK_FALSE(work.list({"src"}, 2005).ok());
}

TEST_CASE("a piece comes from the file that was listed") {
  const Work work;
  const ShipFile file{"train", 3, kAbcListed, true};
  CHECK(*read_ship_piece(work.folder.path(), file, {0, 1, 2}) == "bc");
  work.folder.write("train", "abcd");
  CHECK_THAT(read_ship_piece(work.folder.path(), file, {0, 0, 3}).error().message, Contains("has changed"));
  work.folder.write("train", "a");
  CHECK_THAT(read_ship_piece(work.folder.path(), file, {0, 0, 3}).error().message, Contains("has changed"));
}
