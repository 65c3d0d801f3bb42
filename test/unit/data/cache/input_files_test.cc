// Which files the words of dataset.input mean.
#include "data/cache/input_files.h"

#include "data/cache/cache_error.h"
#include "test/support/catch.h"
#include "test/support/temp_folder.h"

using namespace dtrain::data;
using Catch::Contains;
using dtrain::test::TempFolder;
using Names = std::vector<std::string>;
namespace fs = std::filesystem;

namespace {

Names names_of_inputs(const TempFolder& folder, const Names& words) {
  Names whole, names;
  for (const std::string& word : words) whole.push_back(folder / word);
  for (const InputFile& file : input_files(whole, InputsBy::mtime))
    names.push_back(fs::path(file.path).lexically_relative(folder.path()).string());
  return names;
}

std::string why_no_input(const Names& words) {
  try {
    input_files(words, InputsBy::mtime);
    return "fine";
  } catch (const CacheError& error) {
    CHECK(error.code == kUsageCode);
    return error.what();
  }
}

}  // namespace

TEST_CASE("inputs are files, folders and patterns") {
  TempFolder folder;
  for (const char* name : {"set/b", "set/.dtrain-cache/key"}) fs::create_directories(folder.path() / name);
  for (const char* name : {"z.csv", "a.csv", "_notes.csv", "set/2.csv", "set/b/1.csv", "set/.hidden", "set/_SUCCESS",
                           "set/.dtrain-cache/key/meta.json"})
    folder.write(name, name);
  CHECK(names_of_inputs(folder, {"z.csv", "a.csv"}) == Names{"z.csv", "a.csv"});
  CHECK(names_of_inputs(folder, {"*.csv"}) == Names{"a.csv", "z.csv"});
  CHECK(names_of_inputs(folder, {"set"}) == Names{"set/2.csv", "set/b/1.csv"});
  CHECK(names_of_inputs(folder, {"set/*/*.csv", "set", "set/../a.csv"}) == Names{"set/b/1.csv", "set/2.csv", "a.csv"});
  CHECK(usual_cache(folder / "set") == folder.path() / "set/.dtrain-cache");
  CHECK(usual_cache(folder / "a.csv") == folder.path() / ".dtrain-cache");
  CHECK(usual_cache(folder / "s*/*.csv") == folder.path() / ".dtrain-cache");
}

TEST_CASE("an input that is not there is refused by its name") {
  TempFolder folder;
  fs::create_directory(folder.path() / "empty");
  CHECK_THAT(why_no_input({}), Contains("name at least one"));
  CHECK_THAT(why_no_input({folder / "no.csv"}), Contains("no.csv: No such file"));
  CHECK_THAT(why_no_input({folder / "*.csv"}), Contains("no file has such a name"));
  CHECK_THAT(why_no_input({folder / "empty"}), Contains("there is no file in this folder"));
  CHECK_THAT(why_no_input({"s3://bucket/a"}), Contains("files of this machine alone"));
  CHECK_THAT(why_no_input({"/dev/null"}), Contains("no regular file"));
}

TEST_CASE("by content, an input has its SHA-256") {
  TempFolder folder;
  folder.write("a", "abc");
  CHECK(input_files({folder / "a"}, InputsBy::content)[0].sha256.starts_with("ba7816bf8f01cfea"));
  CHECK(input_files({folder / "a"}, InputsBy::mtime)[0].sha256.empty());
}

TEST_CASE("an input that changes while it is read is an error") {
  TempFolder folder;
  folder.write("a", "abc");
  const auto before = input_files({folder / "a"}, InputsBy::mtime);
  CHECK_NOTHROW(check_unchanged(before));
  folder.write("a", "abcd");
  CHECK_THROWS_WITH(check_unchanged(before), Contains("changed while it was read"));
  fs::remove(folder.path() / "a");
  CHECK_THROWS_AS(check_unchanged(before), CacheError);
}
