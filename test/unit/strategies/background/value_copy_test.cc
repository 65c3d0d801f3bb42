#include "strategies/background/value_copy.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <numeric>
#include <thread>

#include "strategies/background/low_priority.h"
#include "test/support/catch.h"

using dtrain::background::ValueCopy;

namespace {

using Values = std::vector<std::uint32_t>;
constexpr std::size_t kCount = ValueCopy::kStretchBytes + 12345;  // 4 stretches and a part of one

std::shared_ptr<Values> some_values() {
  auto values = std::make_shared<Values>(kCount);
  std::iota(values->begin(), values->end(), 7U);
  return values;
}

}  // namespace

TEST_CASE("value copy: whoever waits copies what no thread has begun") {
  const auto from = some_values();
  Values to(kCount), small(3);
  const auto little = std::make_shared<Values>(Values{1, 2, 3});
  ValueCopy copy;
  CHECK(copy.is_complete());
  copy.add(to.data(), from->data(), kCount * 4, from);
  copy.add(small.data(), little->data(), 12, little);
  CHECK_FALSE(copy.is_complete());
  copy.run();
  CHECK(copy.is_complete());
  CHECK(to == *from);
  CHECK(small == *little);
}

TEST_CASE("value copy: each of several threads returns when all is copied") {
  for (int round = 0; round < 50; ++round) {
    auto from = some_values();
    Values to(kCount);
    ValueCopy copy;
    copy.add(to.data(), from->data(), kCount * 4, from);
    std::atomic<int> good = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i)
      threads.emplace_back([&] {
        copy.run();
        good += to.front() == 7U && to.back() == 7U + kCount - 1 && to[kCount / 2] == 7U + kCount / 2 ? 1 : 0;
      });
    for (std::thread& each : threads) each.join();
    REQUIRE(good == 3);
    REQUIRE(to == *from);
  }
}

TEST_CASE("value copy: the values live as long as the copy") {
  auto from = some_values();
  const std::weak_ptr<Values> seen = from;
  Values to(kCount);
  {
    ValueCopy copy;
    copy.add(to.data(), from->data(), kCount * 4, from);
    from.reset();
    CHECK_FALSE(seen.expired());
    copy.run();
  }
  CHECK(seen.expired());
  CHECK(to.back() == 7U + kCount - 1);
}

TEST_CASE("the lowest priority is that of one thread") {
  const int before = ::getpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()));
  const int policy = ::sched_getscheduler(0);
  int its = 0, its_policy = 0;
  std::thread([&] {
    dtrain::background::take_lowest_priority();
    its_policy = ::sched_getscheduler(0);
    its = ::getpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()));
  }).join();
  CHECK(its == 19);
  CHECK(its_policy == SCHED_BATCH);
  CHECK(::sched_getscheduler(0) == policy);
  CHECK(::getpriority(PRIO_PROCESS, static_cast<id_t>(::gettid())) == before);
}
