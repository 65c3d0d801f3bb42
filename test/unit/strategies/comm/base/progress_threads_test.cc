// Threads that take over from each other.
#include "strategies/comm/base/progress_threads.h"

#include <chrono>
#include <deque>
#include <future>
#include <memory>
#include <set>

#include "test/support/catch.h"

using dtrain::ProgressThreads;

namespace {

constexpr std::chrono::seconds kLong{30};

// Runs functions in their order on ProgressThreads. What makes way calls its argument first.
class Runner {
 public:
  using MakeWay = std::function<void()>;
  using Job = std::function<void(const MakeWay&)>;

  Runner() : threads_(mutex_, "dtrain-test", [this] { take_turns(); }) {
    const std::lock_guard lock(mutex_);
    threads_.start();
  }
  ~Runner() {
    ProgressThreads::Lock lock(mutex_);
    stops_ = true;
    threads_.notify_all();
    threads_.join(lock);
  }

  void add(Job job) {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
    if (!threads_.is_taken()) threads_.notify_one();
  }
  void await_free() {
    ProgressThreads::Lock lock(mutex_);
    threads_.await_free(lock, [this] { return !jobs_.empty(); });
  }
  // On this thread, which has the turn meanwhile.
  template <class Action>
  void occupy(Action action) {
    {
      const std::lock_guard lock(mutex_);
      REQUIRE_FALSE(threads_.is_taken());
      threads_.take();
    }
    action();
    const std::lock_guard lock(mutex_);
    threads_.release(!jobs_.empty());
  }

 private:
  void take_turns() {
    ProgressThreads::Lock lock(mutex_);
    threads_.take_turns(
        lock, [this] { return !jobs_.empty(); }, [this] { return stops_ && jobs_.empty(); },
        [this](ProgressThreads::Lock& held) {
          const Job job = std::move(jobs_.front());
          jobs_.pop_front();
          held.unlock();
          bool kept = true;
          job([&] {
            kept = false;
            threads_.make_way();
          });
          held.lock();
          return kept;
        });
  }

  std::mutex mutex_;
  std::deque<Job> jobs_;
  bool stops_ = false;
  ProgressThreads threads_;
};

void require_ready(const std::future<void>& future) { REQUIRE(future.wait_for(kLong) == std::future_status::ready); }

}  // namespace

TEST_CASE("progress threads do one job at a time, in order, and all of them before they end") {
  std::atomic<int> at_once{0};
  std::vector<int> order;
  {
    Runner runner;
    for (int i = 0; i < 200; ++i)
      runner.add([&, i](const Runner::MakeWay&) {
        if (++at_once != 1) order.push_back(-1);
        order.push_back(i);
        --at_once;
      });
  }
  REQUIRE(order.size() == 200);
  for (int i = 0; i < 200; ++i) CHECK(order[static_cast<std::size_t>(i)] == i);
}

TEST_CASE("a job that makes way may wait for later ones, and so may those") {
  constexpr int kDeep = 5;
  std::vector<std::promise<void>> done(kDeep + 1);
  std::mutex mutex;
  std::set<std::thread::id> threads;
  Runner runner;
  for (int i = 0; i < kDeep; ++i) {
    runner.add([&, i](const Runner::MakeWay& make_way) {
      {
        const std::lock_guard lock(mutex);
        threads.insert(std::this_thread::get_id());
      }
      make_way();
      require_ready(done[static_cast<std::size_t>(i) + 1].get_future());
      done[static_cast<std::size_t>(i)].set_value();
    });
  }
  runner.add([&](const Runner::MakeWay&) { done[kDeep].set_value(); });
  require_ready(done[0].get_future());
  CHECK(threads.size() == kDeep);
}

TEST_CASE("a caller that has the turn holds up jobs, which go on when it releases the turn") {
  std::promise<void> ran;
  const auto future = ran.get_future();
  bool before = true;
  Runner runner;
  runner.occupy([&] {
    runner.add([&](const Runner::MakeWay&) { ran.set_value(); });
    before = future.wait_for(std::chrono::milliseconds{20}) == std::future_status::ready;
  });
  CHECK_FALSE(before);
  require_ready(future);
}

TEST_CASE("who awaits a free turn returns after the last job, and at once where there is none") {
  Runner runner;
  runner.await_free();
  std::promise<void> go;
  std::atomic<int> over{0};
  for (int i = 0; i < 3; ++i)
    runner.add([&, i](const Runner::MakeWay&) {
      if (i == 0) require_ready(go.get_future());
      ++over;
    });
  auto waiter = std::async(std::launch::async, [&] { runner.await_free(); });
  go.set_value();
  require_ready(waiter);
  CHECK(over == 3);
}
