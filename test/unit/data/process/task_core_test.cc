#include "data/process/task_core.h"

#include <algorithm>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "test/support/catch.h"

using namespace dtrain::data;
using What = TaskStep::What;
using Ms = std::chrono::milliseconds;

TEST_CASE("tasks: each is taken once, from the first one on, and around the end") {
  TaskCore core(3, 2, Ms(100), Ms(0));
  for (const std::size_t task : {2U, 0U, 1U}) {
    const TaskStep step = core.next(Ms(0));
    CHECK(step.what == What::take);
    CHECK(step.task == task);
  }
  CHECK(core.next(Ms(0)).what == What::look);
  for (const std::size_t task : {0U, 1U, 2U}) core.done(task, Ms(1));
  CHECK(core.next(Ms(1)).what == What::finished);
  CHECK_FALSE(core.missing());
  CHECK(TaskCore(0, 5, Ms(1), Ms(0)).next(Ms(0)).what == What::finished);
}

TEST_CASE("tasks: what another process holds is tried again after a look, and is waited for with patience") {
  TaskCore core(2, 0, Ms(100), Ms(0));
  CHECK(core.next(Ms(0)).task == 0);
  core.held(0);
  CHECK(core.next(Ms(0)).task == 1);
  CHECK(core.next(Ms(500)).what == What::look);  // as long as one of its own is in work
  core.done(1, Ms(500));
  CHECK(core.next(Ms(600)).what == What::look);
  CHECK(core.next(Ms(601)).what == What::late);
  CHECK(core.missing() == 0U);
  core.looked();
  CHECK(core.next(Ms(602)).what == What::take);
  core.held(0);
  core.done(0, Ms(603));  // the other one's result
  CHECK(core.next(Ms(603)).what == What::finished);
}

TEST_CASE("tasks: processes that die leave none undone, and none is done twice") {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 draw(seed);
    const std::size_t count = draw() % 9, processes = 1 + draw() % 4;
    std::set<std::size_t> results;
    std::vector<std::optional<std::size_t>> holds(processes);  // the task of each: its lock
    std::vector<TaskCore> cores;
    for (std::size_t i = 0; i < processes; ++i) cores.emplace_back(count, i, Ms(1'000'000), Ms(0));
    std::set<std::size_t> ended;
    for (int steps = 0; ended.size() < processes; ++steps) {
      REQUIRE(steps < 10'000);
      const std::size_t who = draw() % processes;
      TaskCore& core = cores[who];
      if (holds[who] && draw() % 8 == 0) {  // dies, and is started again
        core = TaskCore(count, who, Ms(1'000'000), Ms(0));
        holds[who].reset();
      } else if (holds[who]) {
        CHECK(results.insert(*holds[who]).second);
        core.done(*holds[who], Ms(0));
        holds[who].reset();
      } else if (const TaskStep step = core.next(Ms(0)); step.what == What::finished) {
        ended.insert(who);
      } else if (step.what == What::look) {
        for (const std::size_t task : results) core.done(task, Ms(0));
        core.looked();
      } else if (std::any_of(holds.begin(), holds.end(), [&](const auto& held) { return held == step.task; })) {
        core.held(step.task);
      } else if (results.contains(step.task)) {
        core.done(step.task, Ms(0));
      } else {
        holds[who] = step.task;
      }
    }
    CHECK(results.size() == count);
  }
}
