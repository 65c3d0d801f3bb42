#include "launcher/events/event_log.h"

#include <nlohmann/json.hpp>

#include "test/support/catch.h"

namespace dtrain::launcher {
namespace {

using nlohmann::json;

const EventSource kSource{"job-1", "trainer", "node4", "c10d", "python3"};

Assignment second_of_two_nodes() {
  Assignment assignment;
  assignment.node_rank = 1;
  assignment.nnodes = 2;
  assignment.base_rank = assignment.base_role_rank = 8;
  assignment.world_size = assignment.role_world_size = 16;
  return assignment;
}

}  // namespace

TEST_CASE("an event of the agent before the first round is what torchrun prints") {
  Event event;
  event.state = "RENDEZVOUS";
  event.duration_ms = 0.5;
  CHECK(event_line(kSource, event) ==
        R"({"name": "torchelastic.worker.status.RENDEZVOUS", "source": "AGENT", "timestamp": 0, "metadata": {)"
        R"("run_id": "job-1", "global_rank": null, "group_rank": null, "worker_id": null, "role": "trainer", )"
        R"("hostname": "node4", "state": "RENDEZVOUS", "total_run_time": 0, "rdzv_backend": "c10d", )"
        R"("raw_error": null, "metadata": "{\"group_world_size\": null, \"entry_point\": \"python3\"}", )"
        R"("agent_restarts": 0, "duration_ms": 0.5}})");
}

TEST_CASE("an event of a worker has its ranks, and its end") {
  Event event;
  event.state = "FAILED";
  event.timestamp_ms = 1795246790123;
  event.assignment = second_of_two_nodes();
  event.restarts = 1;
  event.total_run_time_s = 7;
  event.worker = EventWorker{3, 4711, -11, R"({"message":"x"})"};
  json line = json::parse(event_line(kSource, event));
  CHECK(line["source"] == "WORKER");
  CHECK(line["timestamp"] == 1795246790123);
  const json& metadata = line["metadata"];
  CHECK(metadata["global_rank"] == 11);
  CHECK(metadata["group_rank"] == 1);
  CHECK(metadata["worker_id"] == "4711");
  CHECK(metadata["agent_restarts"] == 1);
  CHECK(metadata["total_run_time"] == 7);
  CHECK(metadata["raw_error"] == R"({"message":"x"})");
  json inner = json::parse(metadata["metadata"].get<std::string>());
  CHECK(inner["group_world_size"] == 2);
  CHECK(inner["local_rank"] == json::array({3}));
  CHECK(inner["role_rank"] == json::array({11}));
  CHECK(inner["role_world_size"] == json::array({16}));
  CHECK(inner["exit_code"] == json::array({-11}));
  CHECK(inner["worker_pid"] == json::array({4711}));
}

TEST_CASE("an event of a worker that runs tells no end") {
  Event event;
  event.state = "START";
  event.assignment = second_of_two_nodes();
  event.worker = EventWorker{0, 4711, std::nullopt, ""};
  json metadata = json::parse(event_line(kSource, event))["metadata"];
  json inner = json::parse(metadata["metadata"].get<std::string>());
  CHECK(metadata["raw_error"].is_null());
  CHECK(metadata["duration_ms"].is_null());
  CHECK(inner["exit_code"] == json::array({nullptr}));
  CHECK(inner["worker_pid"] == json::array({nullptr}));
}

TEST_CASE("strange bytes stay on one line of valid JSON") {
  EventSource source = kSource;
  source.role = "a\nb\xff\"";
  Event event;
  event.state = "START";
  std::string line = event_line(source, event);
  CHECK(line.find('\n') == std::string::npos);
  CHECK(json::parse(line)["metadata"]["role"] == "a\nb\xef\xbf\xbd\"");
}

}  // namespace dtrain::launcher
