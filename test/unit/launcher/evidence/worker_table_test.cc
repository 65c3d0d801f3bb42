#include "launcher/evidence/worker_table.h"

#include "test/support/catch.h"

namespace dtrain::launcher {
namespace {

using namespace std::chrono_literals;

Assignment second_node() {
  Assignment place;
  place.node_rank = 1;
  place.base_rank = 8;
  return place;
}

WorkerEnd ended(ExitStatus status, MonoTime at) {
  WorkerEnd end;
  end.status = status;
  end.ended = at;
  return end;
}

constexpr MonoTime kBegin = MonoTime{} + 100s;

}  // namespace

TEST_CASE("before the first round the table has neither a place nor workers to show") {
  const WorkerTable table(2);
  CHECK_FALSE(table.place());
  CHECK(table.now(kBegin).empty());
  CHECK_FALSE(table.last_end());
}

TEST_CASE("a round begins with empty rows that know their ranks") {
  WorkerTable table(2);
  table.begin_round(second_node());
  table.row(1).pid = 4711;
  table.row(1).tail.add("words");
  table.row(1).end = ended(ExitStatus::exited(1), kBegin);
  table.begin_round(second_node());
  REQUIRE(table.place());
  CHECK(table.place()->node_rank == 1);
  CHECK(table.row(1).local_rank == 1);
  CHECK(table.row(1).rank == 9);
  CHECK(table.row(1).pid == 0);
  CHECK(table.row(1).tail.empty());
  CHECK_FALSE(table.row(1).end);
}

TEST_CASE("all have started when the last one has, and the last end is the latest") {
  WorkerTable table(2);
  table.begin_round(second_node());
  table.row(1).pid = 11;
  CHECK_FALSE(table.all_started());
  table.row(0).pid = 10;
  CHECK(table.all_started());
  table.row(0).end = ended(ExitStatus::exited(0), kBegin + 2s);
  table.row(1).end = ended(ExitStatus::exited(0), kBegin + 1s);
  CHECK(table.last_end() == kBegin + 2s);
}

TEST_CASE("for dtrain status: what each worker does now") {
  WorkerTable table(3);
  table.begin_round(second_node());
  table.row(0).pid = 10;
  table.row(0).started = kBegin;
  table.row(0).wrote = kBegin + 4s;
  table.row(1).pid = 11;
  table.row(1).started = kBegin;
  table.row(1).end = ended(ExitStatus::exited(3), kBegin + 2s);
  const auto now = table.now(kBegin + 5s);
  REQUIRE(now.size() == 3);
  CHECK(now[0].rank == 8);
  CHECK(now[0].state == "running");
  CHECK(now[0].alive);
  CHECK(now[0].age == 5s);
  CHECK(now[0].silent == 1s);
  CHECK(now[1].state == "exit code 3");
  CHECK_FALSE(now[1].alive);
  CHECK(now[1].age == 2s);
  CHECK(now[2].state == "not started yet");
  CHECK_FALSE(now[2].alive);
  CHECK(now[2].age == 0s);
}

}  // namespace dtrain::launcher
