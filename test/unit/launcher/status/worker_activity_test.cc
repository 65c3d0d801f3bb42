#include "launcher/status/worker_activity.h"

#include "test/support/catch.h"

namespace dtrain::launcher {

using namespace std::chrono_literals;

namespace {
constexpr MonoTime kStart = MonoTime{} + 1000s;
}

TEST_CASE("a worker that uses CPU time is not idle") {
  WorkerActivity worker(kStart);
  CHECK(worker.idle(8s, kStart + 10s) == 0ms);
  CHECK(worker.idle(9s, kStart + 20s) == 0ms);
}

TEST_CASE("a worker is idle since it was last seen to have worked") {
  WorkerActivity worker(kStart);
  CHECK(worker.idle(8s, kStart + 10s) == 0ms);
  CHECK(worker.idle(8s, kStart + 52s) == 42s);
  CHECK(worker.idle(8s, kStart + 110s) == 100s);
  CHECK(worker.idle(12s, kStart + 120s) == 0ms);
  CHECK(worker.idle(12s, kStart + 121s) == 1s);
}

TEST_CASE("one that has done nothing since its start is idle at the first look") {
  WorkerActivity worker(kStart);
  CHECK(worker.idle(200ms, kStart + 60s) == 60s);
}

TEST_CASE("looking now and then, as a process that waits does, is no work") {
  WorkerActivity worker(kStart);
  CHECK(worker.idle(100ms, kStart + 10s) == 10s);
  CHECK(worker.idle(500ms, kStart + 100s) == 100s);
  CHECK(worker.idle(3s, kStart + 101s) == 0ms);
}

TEST_CASE("what is said of it") {
  CHECK(activity('R', 0s) == "running");
  CHECK(activity('S', 4s) == "running");
  CHECK(activity('S', 42s) == "idle 42.0 s (no CPU, no output)");
  CHECK(activity('T', 42s) == "stopped (T)");
  CHECK(activity('t', 0s) == "held by a debugger (t)");
  CHECK(activity('D', 42s) == "disk wait (D)");
  CHECK(activity(0, 0s) == "running");
}

}  // namespace dtrain::launcher
