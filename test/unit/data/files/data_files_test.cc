#include "data/files/data_files.h"

#include <sys/stat.h>

#include "dtrain/data_errors.h"
#include "test/support/catch.h"
#include "test/support/temp_folder.h"

namespace dtrain::data {
namespace {

using Catch::Contains;
using Names = std::vector<std::string>;
using test::TempFolder;

const FilesWanted kParquet = {[](const std::string& name) { return name.ends_with(".parquet"); }, "nothing to read"};

Names names_of(const Names& words) {
  Names names;
  for (const DataFile& file : find_files(words, kParquet)) names.push_back(file.path.substr(file.path.rfind('/') + 1));
  return names;
}

std::string why_none(const Names& words) {
  try {
    return "found " + std::to_string(find_files(words, kParquet).size());
  } catch (const DataError& error) {
    return error.what();
  }
}

TEST_CASE("files of this machine: a file, a folder, a pattern") {
  TempFolder folder;
  for (const char* name : {"b.parquet", "a.parquet", "c.csv", "_c.parquet", ".d.parquet", "[1].parquet"})
    folder.write(name, "some");
  CHECK(names_of({folder.path()}) == Names{"[1].parquet", "a.parquet", "b.parquet"});
  CHECK(names_of({folder / "c.csv", folder / "a.parquet"}) == Names{"c.csv", "a.parquet"});
  CHECK(names_of({folder / "*"}) == Names{"[1].parquet", "a.parquet", "b.parquet", "c.csv"});
  CHECK(names_of({folder / "[ab].parquet"}) == Names{"a.parquet", "b.parquet"});
  CHECK(names_of({folder / "[1].parquet"}) == Names{"[1].parquet"});  // the file itself counts before a pattern
}

TEST_CASE("what is known of a file of this machine") {
  TempFolder folder;
  folder.write("a", "four");
  struct stat facts = {};
  REQUIRE(::stat((folder / "a").c_str(), &facts) == 0);
  const auto files = find_files({folder / "a"}, kParquet);
  REQUIRE(files.size() == 1);
  CHECK(files[0].bytes == 4);
  CHECK(files[0].mtime_ns == facts.st_mtim.tv_sec * 1'000'000'000 + facts.st_mtim.tv_nsec);
  CHECK_FALSE(files[0].is_remote());
  check_same(files[0]);
}

TEST_CASE("where there is no file to read, the message says why") {
  TempFolder folder;
  folder.write("empty.parquet", "");
  CHECK_THAT(why_none({folder / "none"}), Contains("none: No such file or directory"));
  CHECK_THAT(why_none({folder / "none*"}), Contains("none*: no file matches this pattern"));
  CHECK_THAT(why_none({folder / "empty.parquet"}), Contains("the file is empty"));
  CHECK(::mkdir((folder / "sub").c_str(), 0700) == 0);
  CHECK_THAT(why_none({folder / "sub"}), Contains("sub: nothing to read"));
}

TEST_CASE("a URI that no store can have is refused before anything is asked") {
  CHECK_THAT(why_none({"s3:///key"}), Contains("name a bucket"));
  CHECK_THAT(why_none({"gcs://b/k"}), Contains("gcs://: there is no such store; dtrain reads s3://, gs://, abfs://"));
  CHECK_THAT(why_none({"file://host/tmp"}), Contains("there is no such store"));
  CHECK_THAT(why_none({"abfs://container/k"}), Contains("name the account"));
  const std::string secret = why_none({"s3://key:hunter2@b/k"});
  CHECK_THAT(secret, Contains("no credentials in it"));
  CHECK_THAT(secret, !Contains("hunter2"));
}

}  // namespace
}  // namespace dtrain::data
