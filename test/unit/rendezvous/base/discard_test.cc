#include "rendezvous/base/discard.h"

#include <future>
#include <vector>

#include "test/support/catch.h"

using namespace dtrain;

namespace {

constexpr std::size_t kMost = 8;

// Takes as long to free as the test wants, and then says which thread did it.
struct Slow {
  std::shared_future<void> go;
  std::promise<std::thread::id> freed;
  ~Slow() {
    go.wait();
    freed.set_value(std::this_thread::get_id());
  }
};

struct Freed {
  std::vector<std::future<std::thread::id>> by;

  void add(Discard& discard, const std::shared_future<void>& when) {
    auto slow = std::make_shared<Slow>();
    slow->go = when;
    by.push_back(slow->freed.get_future());
    discard.add(std::move(slow));
  }
};

}  // namespace

TEST_CASE("discard: whoever hands over does not wait, and at the end all is freed") {
  std::promise<void> go;
  const std::shared_future<void> when = go.get_future().share();
  Freed freed;
  {
    Discard discard(kMost);
    for (int i = 0; i < 3; ++i) freed.add(discard, when);  // would not return if they were freed here
    go.set_value();
  }
  for (auto& by : freed.by) {
    REQUIRE(by.wait_for(std::chrono::seconds(0)) == std::future_status::ready);
    CHECK(by.get() != std::this_thread::get_id());
  }
}

TEST_CASE("discard: its thread ends, and there is another one later") {
  std::promise<void> go;
  go.set_value();
  const std::shared_future<void> when = go.get_future().share();
  Discard discard(kMost);
  for (int i = 0; i < 200; ++i) {
    Freed freed;
    freed.add(discard, when);
    REQUIRE(freed.by[0].wait_for(std::chrono::seconds(60)) == std::future_status::ready);
  }
}

TEST_CASE("discard: what waits is bounded") {
  std::promise<void> go;
  const std::shared_future<void> when = go.get_future().share();
  std::promise<void> now;
  now.set_value();
  const std::shared_future<void> at_once = now.get_future().share();
  Freed freed;
  Discard discard(kMost);
  freed.add(discard, when);
  for (std::size_t i = 0; i < 2 * kMost + 1; ++i) freed.add(discard, at_once);
  // One batch is being freed and one waits, at the most.
  std::size_t here = 0;
  for (auto& by : freed.by)
    if (by.wait_for(std::chrono::seconds(0)) == std::future_status::ready && by.get() == std::this_thread::get_id())
      ++here;
  CHECK(here >= 2);
  go.set_value();
}
