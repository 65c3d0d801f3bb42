// Operations one at a time, by threads and by callers.
#include "strategies/comm/backend/operation_queue.h"

#include <future>

#include "test/support/catch.h"

using dtrain::OperationQueue;

namespace {

constexpr std::chrono::seconds kLong{30};

class Function final : public OperationQueue::Operation {
 public:
  using Body = std::function<void(const OperationQueue::MakeWay&)>;
  explicit Function(Body body) : body_(std::move(body)) {}
  void carry_out(const OperationQueue::MakeWay& make_way) override { body_(make_way); }

 private:
  Body body_;
};

class Owner {
 public:
  ~Owner() { stop(); }
  void stop() {
    OperationQueue::Lock lock(mutex_);
    queue_.stop(lock);
  }
  void push(Function::Body body) {
    const OperationQueue::Lock lock(mutex_);
    queue_.push(std::make_unique<Function>(std::move(body)));
  }
  bool is_free() {
    const OperationQueue::Lock lock(mutex_);
    return queue_.is_free();
  }
  void await_free() {
    OperationQueue::Lock lock(mutex_);
    queue_.await_free(lock);
  }
  // As a caller does: at once, or in its turn. True: at once.
  bool now(const std::function<void()>& action) {
    OperationQueue::Lock lock(mutex_);
    if (!queue_.is_free()) return false;
    queue_.occupy(lock, action);
    return true;
  }
  bool wait_for_room(std::chrono::milliseconds time) {
    OperationQueue::Lock lock(mutex_);
    return queue_.wait_for_room(lock, time) && !queue_.stops();
  }

 private:
  std::mutex mutex_;
  OperationQueue queue_{mutex_};
};

void require_ready(const std::future<void>& future) { REQUIRE(future.wait_for(kLong) == std::future_status::ready); }

}  // namespace

TEST_CASE("a caller carries out its operation where the queue is free, and what came meanwhile follows") {
  Owner owner;
  std::promise<void> later;
  const auto followed = later.get_future();
  bool nested = true;
  CHECK(owner.now([&] {
    nested = owner.now([] {});
    owner.push([&](const auto&) { later.set_value(); });
  }));
  CHECK_FALSE(nested);
  require_ready(followed);
  owner.await_free();
  CHECK(owner.is_free());
  CHECK(owner.now([] {}));
}

TEST_CASE("while an operation is under way no caller goes before those that wait") {
  Owner owner;
  std::promise<void> go, begun;
  std::vector<int> order;
  owner.push([&](const auto&) {
    begun.set_value();
    require_ready(go.get_future());
    order.push_back(0);
  });
  require_ready(begun.get_future());
  CHECK_FALSE(owner.now([&] { order.push_back(-1); }));
  for (int i = 1; i < 20; ++i) owner.push([&, i](const auto&) { order.push_back(i); });
  go.set_value();
  owner.await_free();
  REQUIRE(order.size() == 20);
  for (int i = 0; i < 20; ++i) CHECK(order[static_cast<std::size_t>(i)] == i);
}

TEST_CASE("what makes way may wait for an operation that it pushes") {
  Owner owner;
  std::promise<void> inner, outer;
  const auto over = outer.get_future();
  owner.push([&](const auto& make_way) {
    make_way();
    make_way();  // a second time changes nothing
    owner.push([&](const auto&) { inner.set_value(); });
    require_ready(inner.get_future());
    outer.set_value();
  });
  require_ready(over);
}

TEST_CASE("a queue that stops carries out what waits first") {
  int done = 0;
  Owner owner;
  for (int i = 0; i < 50; ++i) owner.push([&](const auto&) { ++done; });
  owner.stop();
  CHECK(done == 50);
  CHECK_FALSE(owner.is_free());
  CHECK_FALSE(owner.wait_for_room(kLong));
}

TEST_CASE("a full queue has room when an operation begins") {
  Owner owner;
  std::promise<void> go, begun;
  owner.push([&](const auto&) {
    begun.set_value();
    require_ready(go.get_future());
  });
  require_ready(begun.get_future());
  for (std::size_t i = 0; i < OperationQueue::kMaxQueued; ++i) owner.push([](const auto&) {});
  CHECK_FALSE(owner.wait_for_room(std::chrono::milliseconds{1}));
  go.set_value();
  CHECK(owner.wait_for_room(kLong));
}
