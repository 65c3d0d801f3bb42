#include "launcher/logs/temporary_folders.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "launcher/base/folders.h"
#include "test/support/catch.h"
#include "test/support/temp_folder.h"

namespace dtrain::launcher {
namespace {

namespace fs = std::filesystem;

std::string make(const std::string& path, mode_t mode = 0700) {
  fs::create_directories(path);
  ::chmod(path.c_str(), mode);
  return path;
}

}  // namespace

TEST_CASE("a new job removes the empty folders that dead ones have left, and nothing else") {
  test::TempFolder folder;
  const std::string tmp = folder / "tmp";
  make(tmp);
  auto living = make_temporary_folder(tmp);
  REQUIRE(living);
  make(living->path + "/job_x/attempt_0/0");
  const std::string dead = make(tmp + "/dtrain_abcdefg0");
  make(dead + "/job_y/attempt_0/1");
  const std::string with_log = make(tmp + "/dtrain_abcdefg1");
  make(with_log + "/job_z");
  std::ofstream(with_log + "/job_z/stdout.log") << "x";
  const std::string others = make(tmp + "/dtrain_training", 0755);  // not as ours are made
  const std::string named = make(tmp + "/dtrain_results");          // not a name of ours
  const std::string link = tmp + "/dtrain_abcdefg2";
  fs::create_directory_symlink(make(folder / "elsewhere"), link);

  auto next = make_temporary_folder(tmp);
  REQUIRE(next);
  CHECK(next->path != living->path);
  CHECK_FALSE(fs::exists(dead));
  for (const std::string& stays : {living->path + "/job_x/attempt_0/0", with_log, others, named, link}) {
    INFO(stays);
    CHECK(fs::exists(stays));
  }
}

TEST_CASE("where many jobs have left folders, a new one looks into some of them, and in time all that are empty go") {
  constexpr int kDead = 100;
  test::TempFolder folder;
  const std::string tmp = folder / "tmp";
  const auto number_of_folders = [&] { return std::distance(fs::directory_iterator(tmp), fs::directory_iterator()); };
  make(tmp);
  for (int i = 0; i < kDead; ++i)
    make(fs::path(make(fmt::format("{}/dtrain_aaaaaa{}{}", tmp, char('a' + i / 10), char('a' + i % 10)))) / "job_y");
  REQUIRE(make_temporary_folder(tmp));
  CHECK(number_of_folders() > kDead / 2);
  for (int starts = 0; starts < 1000 && number_of_folders() > 1; ++starts) REQUIRE(make_temporary_folder(tmp));
  CHECK(number_of_folders() == 1);
}

}  // namespace dtrain::launcher
