#include "data/together/task_core.h"

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

TEST_CASE("tasks: a part that takes long is waited for as long as its process goes on") {
  TaskCore core(1, 0, Ms(100), Ms(0));
  core.next(Ms(0));
  core.held(0);
  core.alive(Ms(90));
  CHECK(core.next(Ms(190)).what == What::look);
  CHECK(core.next(Ms(191)).what == What::late);
  CHECK_FALSE(core.is_done(0));
  core.done(0, Ms(192));
  CHECK(core.is_done(0));
}

TEST_CASE("tasks: a result that is seen between a try and its end counts once") {
  TaskCore core(1, 0, Ms(100), Ms(0));
  CHECK(core.next(Ms(0)).what == What::take);
  core.done(0, Ms(1));  // by another thread, which looks
  core.held(0);
  core.looked();
  CHECK(core.next(Ms(1)).what == What::finished);
}

TEST_CASE("tasks: processes of several threads that die leave none undone, and none is done twice") {
  struct Thread {
    std::size_t process;
    std::optional<std::size_t> tries{}, holds{};  // a task: between next() and the lock; with the lock
  };
  for (unsigned seed = 0; seed < 500; ++seed) {
    std::mt19937 draw(seed);
    const std::size_t count = draw() % 9, processes = 1 + draw() % 4, threads = 1 + draw() % 3;
    std::set<std::size_t> results, ended;
    std::vector<Thread> all;
    std::vector<TaskCore> cores;
    for (std::size_t i = 0; i < processes; ++i) cores.emplace_back(count, i, Ms(1'000'000), Ms(0));
    for (std::size_t i = 0; i < processes * threads; ++i) all.push_back({i % processes});
    for (int steps = 0; ended.size() < all.size(); ++steps) {
      REQUIRE(steps < 20'000);
      const std::size_t who = draw() % all.size();
      Thread& thread = all[who];
      TaskCore& core = cores[thread.process];
      if (draw() % 32 == 0) {  // its process dies, and is started again
        core = TaskCore(count, who, Ms(1'000'000), Ms(0));
        for (std::size_t i = 0; i < all.size(); ++i) {
          if (all[i].process != thread.process) continue;
          all[i] = {thread.process};
          ended.erase(i);
        }
      } else if (thread.holds) {
        CHECK(results.insert(*thread.holds).second);
        core.done(*thread.holds, Ms(0));
        thread.holds.reset();
      } else if (thread.tries) {
        const std::size_t task = *thread.tries;
        thread.tries.reset();
        if (std::any_of(all.begin(), all.end(), [&](const Thread& other) { return other.holds == task; }))
          core.held(task);
        else if (results.contains(task))
          core.done(task, Ms(0));
        else
          thread.holds = task;
      } else if (const TaskStep step = core.next(Ms(0)); step.what == What::finished) {
        ended.insert(who);
      } else if (step.what == What::take) {
        thread.tries = step.task;
      } else {
        for (const std::size_t task : results) core.done(task, Ms(0));
        core.looked();
      }
    }
    CHECK(results.size() == count);
  }
}
