#include "cli/logs/logs_options.h"

#include <cstdlib>
#include <ctime>

#include "test/support/catch.h"

namespace dtrain::cli {
namespace {

constexpr int64_t kNow = 1795267323;  // 2026-11-21T13:22:03 UTC

std::string error(const std::vector<std::string>& words) {
  auto got = parse_logs(words, kNow);
  return got ? "<none>" : got.error().message;
}

}  // namespace

TEST_CASE("the words of dtrain logs") {
  auto got = parse_logs({"-f", "logs", "--ranks=0,5-7", "--grep", "-x y", "--attempt", "2", "--stderr"}, kNow);
  REQUIRE(got.ok());
  CHECK(got->folder == "logs");
  CHECK(got->ranks->text() == "0,5-7");
  CHECK(got->text == "-x y");
  CHECK(got->attempt == 2);
  CHECK(got->streams == launcher::Streams::err);
  CHECK(got->follow);
  auto plain = parse_logs({"d"}, kNow);
  REQUIRE(plain.ok());
  CHECK_FALSE((plain->ranks || plain->since_unix || plain->attempt || plain->follow));
  CHECK(plain->streams == launcher::Streams::all);
}

TEST_CASE("wrong words of dtrain logs are named") {
  CHECK(error({}) == "name a folder: dtrain logs DIR, where DIR is the --log-dir of the run");
  CHECK(error({"a", "b"}) == "one folder at a time: b");
  CHECK(error({"a", "--folow"}) == "unknown flag --folow; did you mean --follow?");
  CHECK(error({"a", "-x"}) == "unknown flag -x; `dtrain help logs` lists them");
  CHECK(error({"a", "--grep"}) == "--grep needs a value: TEXT");
  CHECK(error({"a", "--follow=1"}) == "--follow takes no value");
  CHECK(error({"a", "--rank", "x"}) == "--rank 'x': expected ranks and ranges of ranks such as 0,5-7");
  CHECK(error({"a", "--since=soon"}) ==
        "--since 'soon': expected 30s, 10m, 2h, 1d, 13:00, 2026-11-21 or 2026-11-21T13:00:00");
}

TEST_CASE("times since when") {
  const char* before = std::getenv("TZ");
  const std::string kept = before != nullptr ? before : "";
  ::setenv("TZ", "UTC0", 1);
  ::tzset();
  CHECK(*parse_since("30s", kNow) == kNow - 30);
  CHECK(*parse_since("10m", kNow) == kNow - 600);
  CHECK(*parse_since("2h", kNow) == kNow - 7200);
  CHECK(*parse_since("1d", kNow) == kNow - 86400);
  CHECK(*parse_since("13:22:03", kNow) == kNow);
  CHECK(*parse_since("13:22", kNow) == kNow - 3);
  CHECK(*parse_since("2026-11-21", kNow) == kNow - 13 * 3600 - 22 * 60 - 3);
  CHECK(*parse_since("2026-11-20T13:22:03", kNow) == kNow - 86400);
  CHECK(*parse_since("2026-11-20 13:22", kNow) == kNow - 86403);
  for (const char* bad : {"", "m", "-5m", "10", "10 m", "25:00", "13:00x", "2026-13-01", "9999999999999s"})
    CHECK_FALSE(parse_since(bad, kNow).ok());
  before != nullptr ? ::setenv("TZ", kept.c_str(), 1) : ::unsetenv("TZ");
  ::tzset();
}

}  // namespace dtrain::cli
