// The cache's slots, what is fused, what the environment says, what goes over the wire, and the trace.
#include <fstream>
#include <nlohmann/json.hpp>

#include "dtrain/horovod_settings.h"
#include "strategies/horovod/timeline.h"
#include "test/support/catch.h"
#include "test/support/temp_folder.h"
#include "test/unit/strategies/hvd_cycles.h"
#include "test/unit/strategies/variables.h"

using namespace dtrain;
using namespace dtrain::hvd;
using namespace dtrain::hvd::test;
using dtrain::test::lookup_in;
using dtrain::test::Variables;
using namespace std::chrono_literals;

TEST_CASE("hvd: the cache gives up what was used longest ago, and fills holes first") {
  ResponseCache cache(3);
  for (const char* name : {"a", "b", "c"}) cache.put(wants(name));
  cache.use(0);
  cache.put(wants("d"));
  CHECK_FALSE(cache.find("b"));
  CHECK(cache.find("d") == 1);
  cache.drop(0);
  CHECK_FALSE(cache.at(0));
  CHECK(cache.slots() == 3);
  cache.put(wants("e"));
  CHECK(cache.find("e") == 0);
  CHECK(cache.find("c") == 2);

  ResponseCache none(0);
  none.put(wants("a"));
  CHECK(none.slots() == 0);
}

TEST_CASE("hvd: tensors of one kind are fused up to the threshold") {
  using Parts = std::vector<std::vector<std::size_t>>;
  const auto bytes = [](std::int64_t size, const std::string& type = "Float", const std::string& op = "sum") {
    Request request = wants("t", {}, type, op);
    request.bytes = size;
    return request;
  };
  CHECK(plan_fusion({}, 100).empty());
  CHECK(plan_fusion({bytes(50), bytes(50), bytes(1)}, 100) == Parts{{0, 1}, {2}});
  CHECK(plan_fusion({bytes(500), bytes(1), bytes(2)}, 100) == Parts{{0}, {1, 2}});
  CHECK(plan_fusion({bytes(1), bytes(2)}, 0) == Parts{{0}, {1}});
  CHECK(plan_fusion({bytes(0), bytes(0)}, 0) == Parts{{0, 1}});
  CHECK(plan_fusion({bytes(1), bytes(1, "Half"), bytes(1), bytes(1, "Float", "adasum"), bytes(1, "Half")}, 100) ==
        Parts{{0, 2}, {1, 4}, {3}});
}

TEST_CASE("hvd: requests survive the wire, whatever bytes a name has") {
  Request request = in_group("w\xff'\n", "g", 7);
  request.shape = {};
  const auto back = parse_requests(serialize({{request, 5ms}, {wants("b", {0, 3}), 0ms}}));
  REQUIRE(back.size() == 2);
  CHECK(back[0].request == request);
  CHECK(back[0].waited == 5ms);
  CHECK(back[1].request == wants("b", {0, 3}));
  CHECK(parse_requests(serialize({})).empty());
  CHECK_THROWS(parse_requests("nonsense"));
}

TEST_CASE("hvd: the HOROVOD_* variables") {
  const auto parse = [](const Variables& variables) { return parse_settings(lookup_in(variables)); };
  const Settings usual = parse({{"HOROVOD_CYCLE_TIME", ""}});
  CHECK(usual.fusion_threshold == 134217728);
  CHECK(usual.cycle_time == 1ms);
  CHECK(usual.cache_capacity == 1024);
  CHECK(usual.timeline.empty());
  CHECK(usual.stall_warning == 60s);
  CHECK(usual.stall_failure == 30min);
  const Settings set = parse({{"HOROVOD_FUSION_THRESHOLD", "0"},
                              {"HOROVOD_CYCLE_TIME", "3.5"},
                              {"HOROVOD_CACHE_CAPACITY", "8"},
                              {"HOROVOD_TIMELINE", "/tmp/t.json"},
                              {"HOROVOD_STALL_CHECK_TIME_SECONDS", "5"},
                              {"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "0"}});
  CHECK(set.fusion_threshold == 0);
  CHECK(set.cycle_time == 3500us);
  CHECK(set.cache_capacity == 8);
  CHECK(set.timeline == "/tmp/t.json");
  CHECK(set.stall_warning == 5s);
  CHECK(set.stall_failure == 0s);
  const Settings silent = parse({{"HOROVOD_STALL_CHECK_DISABLE", "1"}, {"HOROVOD_STALL_CHECK_TIME_SECONDS", "5"}});
  CHECK(silent.stall_warning == 0s);
  CHECK(silent.stall_failure == 0s);
  CHECK_THROWS_WITH(parse({{"HOROVOD_FUSION_THRESHOLD", "1.5"}}),
                    "dtrain: HOROVOD_FUSION_THRESHOLD='1.5' is not a whole number of at least 0");
  CHECK_THROWS_AS(parse({{"HOROVOD_CYCLE_TIME", "-1"}}), ConfigError);
  CHECK_THROWS_AS(parse({{"HOROVOD_CACHE_CAPACITY", "many"}}), ConfigError);
  CHECK_THROWS_AS(parse({{"HOROVOD_CYCLE_TIME", "nan"}}), ConfigError);
}

TEST_CASE("hvd: variables of Horovod's without effect are named") {
  const auto line = [](const Variables& variables) { return without_effect(lookup_in(variables)); };
  CHECK_FALSE(line({}));
  CHECK_FALSE(line({{"HOROVOD_FUSION_THRESHOLD", "1"},
                    {"HOROVOD_CYCLE_TIME", "1"},
                    {"HOROVOD_CACHE_CAPACITY", "1"},
                    {"HOROVOD_TIMELINE", "t"},
                    {"HOROVOD_STALL_CHECK_TIME_SECONDS", "1"},
                    {"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "1"},
                    {"HOROVOD_STALL_CHECK_DISABLE", "1"},
                    {"HOROVOD_AUTOTUNE", ""}}));
  CHECK(line({{"HOROVOD_AUTOTUNE", "1"}}) == "HOROVOD_AUTOTUNE has no effect here");
  CHECK(line({{"HOROVOD_LOG_LEVEL", "debug"},
              {"HOROVOD_HIERARCHICAL_ALLREDUCE", "0"},
              {"HOROVOD_TIMELINE_MARK_CYCLES", "1"},
              {"HOROVOD_DISABLE_GROUP_FUSION", "1"}}) ==
        "HOROVOD_TIMELINE_MARK_CYCLES, HOROVOD_HIERARCHICAL_ALLREDUCE, HOROVOD_DISABLE_GROUP_FUSION, HOROVOD_LOG_LEVEL "
        "have no effect here");
}

TEST_CASE("hvd: the timeline is JSON with a row for each tensor") {
  const dtrain::test::TempFolder folder;
  const std::string path = folder / "trace.json";
  {
    Timeline timeline(path);
    const auto now = std::chrono::steady_clock::now();
    for (int i = 0; i < 100; ++i) timeline.add(i % 2 ? "b\xff\"" : "a", "ALLREDUCE", now, now + 3us);
  }
  std::ifstream file(path);
  const nlohmann::json events = nlohmann::json::parse(file);
  CHECK(events.size() == 102);
  CHECK(events[0]["args"]["name"] == "a");
  CHECK(events[1]["ph"] == "X");
  CHECK(events[1]["dur"] == 3);
  CHECK(events[1]["pid"] != events[3]["pid"]);
  { const Timeline empty(path); }
  std::ifstream again(path);
  CHECK(nlohmann::json::parse(again).empty());
  CHECK_THROWS_WITH(Timeline("/nowhere/trace.json"), Catch::Contains("HOROVOD_TIMELINE: '/nowhere/trace.json'"));
}
