// The files that an entry is made of.
#include "data/cache/cache_inputs.h"

#include "data/cache/cache_error.h"
#include "test/support/catch.h"
#include "test/support/temp_folder.h"

using namespace dtrain::data;
using Catch::Contains;
using dtrain::test::TempFolder;
using Names = std::vector<std::string>;
namespace fs = std::filesystem;

namespace {

std::string why_no_input(const Names& files) {
  try {
    cache_inputs(files, InputsBy::mtime);
    return "fine";
  } catch (const CacheError& error) {
    CHECK(error.code == kUsageCode);
    return error.what();
  }
}

}  // namespace

TEST_CASE("inputs keep their order, and none counts twice") {
  TempFolder folder;
  folder.write("z", "1");
  folder.write("a", "22");
  const auto inputs = cache_inputs({folder / "z", folder / "a", folder / "./x/../z"}, InputsBy::mtime);
  REQUIRE(inputs.size() == 2);
  CHECK(inputs[0].path == folder / "z");
  CHECK(inputs[1].size == 2);
  CHECK(inputs[1].mtime_ns > 1'500'000'000'000'000'000);
}

TEST_CASE("without a name, the cache is where the first input lies") {
  TempFolder folder;
  fs::create_directory(folder.path() / "set");
  CHECK(usual_cache(folder / "set") == folder.path() / "set/.dtrain-cache");
  CHECK(usual_cache(folder / "a.csv") == folder.path() / ".dtrain-cache");
  CHECK(usual_cache(folder / "s*/*.csv") == folder.path() / ".dtrain-cache");
}

TEST_CASE("an input that is not there is refused by its name") {
  CHECK_THAT(why_no_input({}), Contains("name at least one"));
  CHECK_THAT(why_no_input({"/none/no.csv"}), Contains("/none/no.csv: No such file"));
  CHECK_THAT(why_no_input({"/dev/null"}), Contains("no regular file"));
}

TEST_CASE("by content, an input has its SHA-256") {
  TempFolder folder;
  folder.write("a", "abc");
  CHECK(cache_inputs({folder / "a"}, InputsBy::content)[0].sha256.starts_with("ba7816bf8f01cfea"));
  CHECK(cache_inputs({folder / "a"}, InputsBy::mtime)[0].sha256.empty());
}

TEST_CASE("an input that changes while it is read is an error") {
  TempFolder folder;
  folder.write("a", "abc");
  const auto before = cache_inputs({folder / "a"}, InputsBy::mtime);
  CHECK_NOTHROW(check_unchanged(before));
  folder.write("a", "abcd");
  CHECK_THROWS_WITH(check_unchanged(before), Contains("changed while it was read"));
  fs::remove(folder.path() / "a");
  CHECK_THROWS_AS(check_unchanged(before), CacheError);
}
