// A file that any program may have written.
#include "launcher/progress/progress_file.h"

#include "test/support/catch.h"

using namespace dtrain;
using namespace dtrain::launcher;

TEST_CASE("a progress file tells steps, time and metrics") {
  const auto told = parse_progress(R"({"step": 450, "steps": 1000, "percent": 45.5, "seconds_left": 12, "other": [1],
                                       "metrics": {"loss": 0.25, "epoch": 2, "phase": "warm up", "bad": null}})");
  REQUIRE(told.ok());
  CHECK(told->step == 450);
  CHECK(told->steps == 1000);
  CHECK(told->percent == 45.5);
  CHECK(told->seconds_left == 12);
  CHECK(told->metrics == std::vector<std::pair<std::string, std::string>>{
                             {"loss", "0.25"}, {"epoch", "2"}, {"phase", "warm up"}, {"bad", "nan"}});
  CHECK(*parse_progress("{}") == Progress{});
}

TEST_CASE("a progress file that cannot be read is told with what is wrong") {
  const std::string many(70000, ' ');
  const std::string deep(100, '[');
  const std::pair<std::string, const char*> cases[] = {
      {"", "it is no object of JSON"},
      {"[]", "it is no object of JSON"},
      {deep, "it is no object of JSON"},
      {many, "it has more than 65536 bytes"},
      {R"({"step": -1})", "\"step\" is no number of steps"},
      {R"({"steps": 1.5})", "\"steps\" is no number of steps"},
      {R"({"steps": 18446744073709551615})", "\"steps\" is no number of steps"},
      {R"({"percent": 101})", "\"percent\" is no number from 0 to 100"},
      {R"({"percent": null})", "\"percent\" is no number from 0 to 100"},
      {R"({"seconds_left": 1e300})", "\"seconds_left\" is no number from 0 to 2147483647"},
      {R"({"metrics": [1]})", "\"metrics\" is no object"},
      {R"({"metrics": {"a": {"b": 1}}})", "the metric 'a' is no number and no text"},
      {R"({"metrics": {"": 1}})", "the metric '' is no number and no text"},
  };
  for (const auto& [text, what] : cases) {
    INFO(what);
    const auto told = parse_progress(text);
    REQUIRE_FALSE(told.ok());
    CHECK(told.error().message == what);
  }
  std::string metrics;
  for (std::size_t i = 0; i <= kMostMetrics; ++i) metrics += (i ? ",\"m" : "\"m") + std::to_string(i) + "\":1";
  CHECK(parse_progress("{\"metrics\":{" + metrics + "}}").error().message == "there are more than 64 metrics");
}
