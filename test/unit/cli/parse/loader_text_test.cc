// --loader, and backend.loader of a config file.
#include "cli/parse/loader_text.h"

#include "test/support/catch.h"

using namespace dtrain;
using namespace dtrain::cli;
using Catch::Contains;

TEST_CASE("loader: the keys that are given, in one form") {
  const auto text = [](const char* json) {
    const auto made = loader_text(json);
    return made ? *made : made.error().message;
  };
  CHECK(text(R"({"window_size_bytes": 500000000, "fully_executed": false})") ==
        R"({"fully_executed":false,"window_size_bytes":500000000})");
  CHECK(text(R"({"window_size_bytes":"auto"})") == R"({"window_size_bytes":"auto"})");
  CHECK(text(R"({"window_size_bytes":null})") == R"({"window_size_bytes":null})");
  CHECK(text("{}") == "{}");
  CHECK(text(R"({"window_size_bytes":9223372036854775807})") == R"({"window_size_bytes":9223372036854775807})");
  for (const char* wrong : {"0", "-1", "1.5", "\"all\"", "true", "9223372036854775808", "1e3", "[]", "{}"})
    CHECK(text((R"({"window_size_bytes":)" + std::string(wrong) + "}").c_str()) ==
          "window_size_bytes: expected a number of bytes from 1, null or auto");
  CHECK(text(R"({"fully_executed":null})") == "fully_executed: expected true or false");
  CHECK(text(R"({"shuffle":true})") == "shuffle: unknown key; the keys are window_size_bytes and fully_executed");
  CHECK(text(R"({"fully_executed":true,"fully_executed":false})") == "fully_executed is there twice");
  for (const char* none : {"", "auto", "[]", "{", "3"}) CHECK_THAT(text(none), Contains("expected a JSON object"));
}
