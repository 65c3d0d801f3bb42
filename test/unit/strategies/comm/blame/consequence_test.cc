// What the launcher is told of a failure: the same files that its tests read.
#include "strategies/comm/blame/consequence.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <iterator>

#include "strategies/comm/blame/error_file.h"
#include "strategies/comm/blame/new_file.h"
#include "test/support/catch.h"
#include "test/support/golden.h"
#include "test/support/temp_folder.h"

namespace dtrain {

TEST_CASE("the launcher's files") {
  test::check_golden("blame/blame_rank0.json", consequence_json(FailureKind::peer_left, 1, 1'795'246'790));
  test::check_golden("blame/uncaught.json", uncaught_json("std::runtime_error: cannot read shard 17", 1'795'246'790));
  CHECK(consequence_json(FailureKind::timed_out, 1, 0).find("\"ends\":false") != std::string::npos);
  CHECK(uncaught_json("\xff", 0).find('\xff') == std::string::npos);
}

TEST_CASE("a new file is whole, and takes no other's place") {
  const test::TempFolder folder;
  const std::string path = folder / "file";
  CHECK(write_new_file(path, "first"));
  CHECK_FALSE(write_new_file(path, "second"));
  CHECK(folder.read("file") == "first");
  CHECK_FALSE(write_new_file(folder / "no/file", "x"));
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), std::filesystem::directory_iterator{}) == 1);
}

TEST_CASE("a file is replaced as a whole, also where a part of an earlier attempt was left") {
  const test::TempFolder folder;
  const std::string path = folder / "file", part = path + ".part";
  CHECK(replace_file(path, part, "first"));
  folder.write("file.part", "half of");
  CHECK(replace_file(path, part, "second"));
  CHECK(folder.read("file") == "second");
  errno = 0;
  CHECK_FALSE(replace_file(folder / "no/file", folder / "no/file.part", "x"));
  CHECK(errno == ENOENT);
  CHECK_FALSE(replace_file(folder.path(), part, "x"));  // the folder itself has that name
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), std::filesystem::directory_iterator{}) == 1);
}

TEST_CASE("who fails because of another rank tells the launcher once") {
  const test::TempFolder folder;
  ::setenv("DTRAIN_ROUND_DIR", folder.path().c_str(), 1);
  for (const auto& [name, value] : {std::pair("RANK", "0"), std::pair("WORLD_SIZE", "4"), std::pair("MASTER_ADDR", "x"),
                                    std::pair("MASTER_PORT", "1")})
    ::setenv(name, value, 1);
  prepare_to_tell_launcher();
  const std::string path = folder / "blame_rank0.json";
  const auto tell = [](FailureKind kind, int rank, const RankNames& names, int size) {
    told_to_launcher(std::make_exception_ptr(CollectiveError(kind, rank, "x")), names, size);
  };
  tell(FailureKind::aborted, 0, {}, 4);    // its own doing
  tell(FailureKind::peer_died, 1, {}, 2);  // of which group of two?
  told_to_launcher(std::make_exception_ptr(std::runtime_error("x")), {}, 4);
  CHECK_FALSE(std::filesystem::exists(path));
  tell(FailureKind::peer_left, 3, {"shard", {0, 3}}, 2);
  tell(FailureKind::peer_died, 1, {}, 4);
  CHECK(folder.read("blame_rank0.json").starts_with("{\"because_of\":3,"));
  for (const char* name : {"DTRAIN_ROUND_DIR", "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) ::unsetenv(name);
}

}  // namespace dtrain
