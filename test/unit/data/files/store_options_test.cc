#include "data/files/store_options.h"

#include <sys/stat.h>

#include <cstdlib>

#include "dtrain/data_errors.h"
#include "test/support/catch.h"
#include "test/support/temp_folder.h"

namespace dtrain::data {
namespace {

using Catch::Contains;
using Values = std::map<std::string, std::string>;

Values merged(const std::string& file, const Values& environment) {
  return merged_options("FILE", file,
                        [&](const char* name) -> const char* {
                          const auto found = environment.find(name);
                          return found == environment.end() ? nullptr : found->second.c_str();
                        })
      .values;
}

std::string why_not(const std::string& file, const Values& environment = {}) {
  try {
    merged(file, environment);
    return "fine";
  } catch (const DataError& error) {
    return error.what();
  }
}

TEST_CASE("options of a store: of the environment, and before it of the file") {
  CHECK(merged("", {{"HOME", "/"}, {"AWS_REGION", ""}}) == Values{});
  CHECK(merged("", {{"AWS_DEFAULT_REGION", "a"}}) == Values{{"AWS_REGION", "a"}});
  CHECK(merged("", {{"AWS_DEFAULT_REGION", "a"}, {"AWS_REGION", "b"}}) == Values{{"AWS_REGION", "b"}});
  CHECK(merged("", {{"AWS_ENDPOINT_URL", "a"}, {"AWS_ENDPOINT_URL_S3", "b"}}) == Values{{"AWS_ENDPOINT_URL", "b"}});
  CHECK(merged(R"({"AWS_REGION": "f"})", {{"AWS_REGION", "e"}, {"AWS_ENDPOINT_URL", "u"}}) ==
        Values{{"AWS_REGION", "f"}, {"AWS_ENDPOINT_URL", "u"}});
}

TEST_CASE("a store's credentials are all of the file or all of the environment") {
  const Values mine = {{"AWS_ACCESS_KEY_ID", "e"}, {"AWS_SECRET_ACCESS_KEY", "e"}, {"AWS_SESSION_TOKEN", "e"}};
  CHECK(merged("", mine) == mine);
  CHECK(merged(R"({"AWS_ACCESS_KEY_ID": "f", "AWS_SECRET_ACCESS_KEY": "f"})", mine) ==
        Values{{"AWS_ACCESS_KEY_ID", "f"}, {"AWS_SECRET_ACCESS_KEY", "f"}});
  CHECK(merged(R"({"AZURE_STORAGE_KEY": "f"})", mine).size() == 4);
  CHECK_THAT(why_not(R"({"AWS_ACCESS_KEY_ID": "f"})", mine), Contains("set both or neither"));
}

TEST_CASE("what is wrong with a file of credentials is said without its values") {
  for (const char* file :
       {"[\"hunter2\"]", "{\"hunter2\"", "{\"AWS_ACCESS_KEY_ID\": [\"hunter2\"]}", "{\"AWS_ACCESS_KEY_ID\": \"\"}",
        "{\"AWS_ACCESS_KEY_ID\": \"hunter2\"}", "{\"key\": \"hunter2\"}"}) {
    const std::string message = why_not(file);
    CHECK_THAT(message, Catch::StartsWith("dtrain: "));
    CHECK_THAT(message, !Contains("hunter2"));
  }
  CHECK_THAT(why_not(R"({"key": "x"})"), Contains("no option 'key'"));
}

TEST_CASE("the time that a store has to answer") {
  const auto told = [](const char* text) { return StoreOptions{{{"DTRAIN_STORE_TIMEOUT_S", text}}}.timeout_s(); };
  CHECK(StoreOptions{}.timeout_s() == 10);
  CHECK(told("3") == 3);
  for (const char* text : {"0", "x", "1.5", "3601", "-1", "3 "}) CHECK_THROWS_AS(told(text), DataError);
}

TEST_CASE("a file of credentials that others can read is refused") {
  const test::TempFolder folder;
  const std::string path = folder / "credentials.json";
  folder.write("credentials.json", R"({"AWS_REGION": "here"})");
  ::setenv("DTRAIN_STORE_CREDENTIALS", path.c_str(), 1);
  ::chmod(path.c_str(), 0600);
  CHECK(store_options().of("AWS_REGION") == "here");
  for (const mode_t mode : {0640, 0604}) {
    ::chmod(path.c_str(), mode);
    CHECK_THROWS_WITH(store_options(), Contains("chmod 600"));
  }
  ::setenv("DTRAIN_STORE_CREDENTIALS", "/does/not/exist", 1);
  CHECK_THROWS_WITH(store_options(), Contains("DTRAIN_STORE_CREDENTIALS: /does/not/exist: No such file"));
  ::setenv("DTRAIN_STORE_CREDENTIALS", R"({"AWS_SECRET_ACCESS_KEY": "hunter2"})", 1);
  CHECK_THROWS_WITH(store_options(), Contains("it must be the path of a file") && !Contains("hunter2"));
  ::unsetenv("DTRAIN_STORE_CREDENTIALS");
}

}  // namespace
}  // namespace dtrain::data
