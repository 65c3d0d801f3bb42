// When a job's status is posted, and what it says.
#include "launcher/progress/post_core.h"

#include <nlohmann/json.hpp>

#include "test/support/catch.h"

using namespace dtrain;
using namespace dtrain::launcher;
using namespace std::chrono_literals;
using Json = nlohmann::json;

namespace {

const std::string kWhen = "2026-11-29T01:02:03.000+00:00";

Progress at_step(std::int64_t step) {
  Progress progress;
  progress.step = step;
  progress.steps = 100;
  progress.metrics = {{"loss", "0.5"}};
  return progress;
}

struct Poster {
  PostCore core{};
  MonoTime now{1000s};

  // The metrics of what is posted now, by name, with the two numbers; null: nothing is posted.
  Json posted(const std::optional<std::string>& why_not = {}) {
    const auto body = core.take_post(now, kWhen);
    if (!body) return {};
    CHECK_FALSE(core.take_post(now, kWhen));
    core.posted(why_not, now);
    const Json status = Json::parse(*body).at("trainerStatus");
    CHECK(status.at("lastUpdatedTime") == kWhen);
    Json told;
    for (const Json& each : status.at("metrics")) told[each.at("name")] = each.at("value");
    for (const char* name : {"progressPercentage", "estimatedRemainingSeconds"})
      if (status.contains(name)) told[name] = status.at(name);
    return told;
  }
};

}  // namespace

TEST_CASE("a round that begins is posted with what the job is") {
  Poster poster;
  poster.core.job({"waiting", "", 0, 2, 8});
  CHECK_FALSE(poster.core.due());
  poster.core.job({"running", "", 1, 2, 8});
  CHECK(poster.posted() ==
        Json{{"dtrain_state", "running"}, {"dtrain_restarts", "1"}, {"dtrain_nodes", "2"}, {"dtrain_world_size", "8"}});
  CHECK(poster.posted().is_null());
}

TEST_CASE("progress is posted no more often than the server likes, and the newest") {
  Poster poster;
  poster.core.job({"running", "", 0, 1, 1});
  poster.core.progress(at_step(10), poster.now);
  CHECK(poster.posted().at("step") == "10");
  poster.now += 1s;
  poster.core.progress(at_step(20), poster.now);
  CHECK(poster.posted().is_null());
  CHECK(poster.core.due() == poster.now + 4s);
  poster.now += 4s;
  poster.core.progress(at_step(60), poster.now);
  const Json told = poster.posted();
  CHECK(told.at("step") == "60");
  CHECK(told.at("loss") == "0.5");
  CHECK(told.at("progressPercentage") == 60);
  CHECK(told.at("estimatedRemainingSeconds") == 4);  // 50 steps took 5 s, and 40 are left
  poster.now += 60s;
  poster.core.progress(at_step(60), poster.now);
  CHECK(poster.posted().is_null());
}

TEST_CASE("the end is posted at once") {
  Poster poster;
  poster.core.progress(at_step(99), poster.now);
  CHECK_FALSE(poster.posted().is_null());
  poster.core.finish({"succeeded", "", 0, 1, 1});
  CHECK_FALSE(poster.core.idle());
  const Json told = poster.posted();
  CHECK(told.at("progressPercentage") == 100);
  CHECK(told.at("estimatedRemainingSeconds") == 0);
  CHECK(told.at("dtrain_state") == "succeeded");
  CHECK(poster.core.idle());
}

TEST_CASE("where the program tells dtrain nothing, a success is the program's to post") {
  Poster poster;
  poster.core.job({"running", "", 0, 1, 1});
  CHECK_FALSE(poster.posted().is_null());
  poster.core.job({"stopping", "", 0, 1, 1});
  poster.core.finish({"succeeded", "", 0, 1, 1});
  CHECK(poster.core.idle());
  Poster failed;
  failed.core.finish({"failed", "rank 1: exit code 7", 0, 1, 1});
  CHECK(failed.posted().at("dtrain_reason") == "rank 1: exit code 7");
}

TEST_CASE("a server that fails is asked less often, and told of once") {
  Poster poster;
  poster.core.job({"running", "", 0, 1, 1});
  CHECK_FALSE(poster.posted("refused").is_null());
  CHECK(poster.core.take_note() == "the progress of the job was not posted: refused");
  for (const auto pause : {5s, 10s, 20s, 40s, 60s, 60s}) {
    CHECK(poster.core.due() == poster.now + pause);
    poster.now += pause;
    CHECK_FALSE(poster.posted("refused").is_null());
    CHECK_FALSE(poster.core.take_note());
  }
  poster.now += 60s;
  CHECK_FALSE(poster.posted().is_null());
  CHECK_FALSE(poster.core.due());
  poster.core.progress(at_step(1), poster.now);
  CHECK(poster.core.due() == poster.now + 5s);
  poster.now += 5s;
  CHECK_FALSE(poster.posted("gone").is_null());
  CHECK(poster.core.take_note() == "the progress of the job was not posted: gone");
}

TEST_CASE("the last word does not depend on a post that is under way at the end") {
  Poster poster;
  poster.core.progress(at_step(99), poster.now);
  REQUIRE(poster.core.take_post(poster.now, kWhen));
  poster.core.finish({"succeeded", "", 0, 1, 1});
  CHECK_FALSE(poster.core.take_post(poster.now, kWhen));
  CHECK_FALSE(poster.core.idle());
  poster.core.posted("refused", poster.now);
  CHECK(poster.posted().at("dtrain_state") == "succeeded");
  CHECK(poster.core.idle());
}

TEST_CASE("a beginning that could not be posted is not posted after the end of the round") {
  Poster poster;
  poster.core.job({"running", "", 0, 1, 1});
  CHECK_FALSE(poster.posted("refused").is_null());
  poster.core.job({"stopping", "", 0, 1, 1});
  poster.now += 60s;
  CHECK(poster.posted().is_null());
}

TEST_CASE("what the server would refuse for its length is made shorter") {
  Poster poster;
  Progress told;
  told.metrics = {{std::string(70, 'n'), std::string(70, '\x01')}};
  poster.core.progress(told, poster.now);
  poster.core.job({"running", "", 0, 1, 1});
  const auto body = poster.core.take_post(poster.now, kWhen);
  REQUIRE(body);
  const Json posted = Json::parse(*body);
  for (const Json& each : posted.at("trainerStatus").at("metrics")) {
    CHECK(each.at("name").get<std::string>().size() <= 64);
    CHECK(each.at("value").get<std::string>().size() <= 64);
  }
}

TEST_CASE("the last post is not tried twice") {
  Poster poster;
  poster.core.finish({"failed", "", 0, 1, 1});
  CHECK_FALSE(poster.posted("refused").is_null());
  CHECK(poster.core.idle());
}

TEST_CASE("a file that cannot be read is told of once") {
  Poster poster;
  const Error error{ErrorKind::usage, "it is no object of JSON"};
  poster.core.progress(error, poster.now);
  CHECK(poster.core.take_note() == "the file that tells of the progress cannot be read: it is no object of JSON");
  poster.core.progress(error, poster.now);
  CHECK_FALSE(poster.core.take_note());
  CHECK_FALSE(poster.core.due());
}

TEST_CASE("the time that is left is the program's, or that of its steps") {
  StepPace pace;
  MonoTime now{};
  Progress told = at_step(50);
  told.seconds_left = 7;
  pace.saw(told, now);
  CHECK(pace.seconds_left() == 7.0);
  pace.saw(at_step(50), now + 10s);
  CHECK_FALSE(pace.seconds_left());
  pace.saw(at_step(60), now + 20s);
  CHECK(pace.seconds_left() == 80.0);
  pace.saw(at_step(10), now + 30s);  // after a restart
  CHECK_FALSE(pace.seconds_left());
  pace.saw(at_step(100), now + 40s);
  CHECK(pace.seconds_left() == 0.0);
}
