#include "launcher/events/job_events.h"

#include <csignal>
#include <nlohmann/json.hpp>

#include "test/support/catch.h"

namespace dtrain::launcher {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

constexpr MonoTime kBegin = MonoTime{} + 100s;

Moment after(std::chrono::seconds passed) { return {kBegin + passed, 1'795'246'790'000 + passed / 1ms}; }

JobEvents events() { return {{"job-1", "trainer", "node4", "c10d", "python3"}, kBegin}; }

WorkerTable table_of(int workers, int restart_count = 0) {
  WorkerTable table(workers);
  Assignment place;
  place.restart_count = restart_count;
  table.begin_round(place);
  for (int i = 0; i < workers; ++i) table.row(i).pid = 4711 + i;
  return table;
}

void end(WorkerTable& table, int local_rank, ExitStatus status, std::chrono::seconds passed) {
  WorkerEnd& end = table.row(local_rank).end.emplace();
  end.status = status;
  end.ended = kBegin + passed;
}

std::vector<json> parsed(const JobEvents::Lines& lines) {
  std::vector<json> all;
  for (const std::string& line : lines) all.push_back(json::parse(line)["metadata"]);
  return all;
}

std::vector<std::string> states(const JobEvents::Lines& lines) {
  std::vector<std::string> all;
  for (const json& event : parsed(lines)) all.push_back(event["state"]);
  return all;
}

using States = std::vector<std::string>;

}  // namespace

TEST_CASE("the first rendezvous has no round yet, and lasts since the job began") {
  const auto lines = events().round_began(WorkerTable(2), Assignment{}, after(3s));
  CHECK(states(lines) == States{"RENDEZVOUS", "ASSIGN_WORKER_RANKS"});
  const auto all = parsed(lines);
  CHECK(all[0]["group_rank"].is_null());
  CHECK(all[0]["duration_ms"] == 3000);
  CHECK(all[1]["duration_ms"] == 0);
  CHECK(all[0]["total_run_time"] == 3);
  CHECK(json::parse(lines[0])["timestamp"] == 1'795'246'793'000);
}

TEST_CASE("a further rendezvous names the round before, and lasts since that one's last end") {
  WorkerTable table = table_of(2);
  end(table, 0, ExitStatus::exited(1), 5s);
  end(table, 1, ExitStatus::signaled(SIGTERM, false), 6s);
  Assignment next;
  next.restart_count = 1;
  const auto all = parsed(events().round_began(table, next, after(8s)));
  CHECK(all[0]["group_rank"] == 0);
  CHECK(all[0]["agent_restarts"] == 1);
  CHECK(all[0]["duration_ms"] == 2000);
}

TEST_CASE("each worker that starts is an event with the restarts of its round") {
  const auto lines = events().started(table_of(2, 3), after(1s));
  CHECK(states(lines) == States{"START", "START"});
  CHECK(parsed(lines)[1]["worker_id"] == "4712");
  CHECK(parsed(lines)[1]["agent_restarts"] == 3);
}

TEST_CASE("a good end: each worker has succeeded, and so has the agent") {
  WorkerTable table = table_of(2);
  for (const int i : {0, 1}) end(table, i, ExitStatus::exited(0), 4s);
  const auto lines = events().ended(table, Outcome{}, after(5s));
  CHECK(states(lines) == States{"SUCCEEDED", "SUCCEEDED", "SUCCEEDED"});
}

TEST_CASE("a failure: who failed has an exit code and an error, who ended well was terminated") {
  WorkerTable table = table_of(2);
  end(table, 0, ExitStatus::exited(0), 4s);
  end(table, 1, ExitStatus::signaled(SIGSEGV, false), 5s);
  Outcome outcome;
  outcome.cause = StopCause::failure;
  outcome.restarts = 2;
  const auto lines = events().ended(table, outcome, after(6s));
  CHECK(states(lines) == States{"TERMINATED", "FAILED", "FAILED"});
  const auto all = parsed(lines);
  CHECK(json::parse(all[1]["metadata"].get<std::string>())["exit_code"] == json::array({-SIGSEGV}));
  CHECK(all[1]["raw_error"] == R"({"message":"<NONE>"})");
  CHECK(all[0]["raw_error"].is_null());
  CHECK(all[2]["agent_restarts"] == 2);
}

}  // namespace dtrain::launcher
