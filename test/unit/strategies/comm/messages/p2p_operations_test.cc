// Operations that wait, and those that have ended.
#include "strategies/comm/messages/p2p_operations.h"

#include <future>
#include <stdexcept>

#include "test/support/catch.h"

using dtrain::P2pCore;
using dtrain::P2pOperations;
using Id = P2pOperations::Id;

namespace {

constexpr std::chrono::seconds kLong{30};

P2pOperations::Pending receive_from(int peer) {
  P2pOperations::Pending pending{};
  pending.request.peer = peer;
  pending.request.label = {7, 1, "Float [3]"};
  return pending;
}

Id add(P2pOperations& operations, P2pOperations::Pending pending) {
  const Id id = operations.new_id();
  operations.add(id, std::move(pending));
  return id;
}

}  // namespace

TEST_CASE("operations have names for people") {
  P2pOperations::Pending pending = receive_from(2);
  CHECK(pending.name() == "recv of Float [3] from rank 2 with tag 7");
  pending.request.peer = P2pCore::kAny;
  CHECK(pending.name() == "recv of Float [3] from any rank with tag 7");
  pending.sends = true;
  pending.request.peer = 1;
  CHECK(pending.name() == "send of Float [3] to rank 1 with tag 7");
}

TEST_CASE("operations are handed out in the order of their ends, or by id") {
  P2pOperations operations;
  std::vector<Id> ids;
  for (int i = 0; i < 4; ++i) ids.push_back(add(operations, receive_from(i)));
  CHECK(ids == std::vector<Id>{1, 2, 3, 4});
  CHECK(operations.has_pending());
  CHECK_FALSE(operations.has_ended());
  CHECK_FALSE(operations.take(ids[1]));
  operations.finish(ids[1], {nullptr, 1});
  CHECK_FALSE(operations.is_pending(ids[1]));
  CHECK(operations.is_pending(ids[0]));
  CHECK_FALSE(operations.take_only(ids[0]));
  operations.finish(ids[3], {nullptr, 3});
  operations.finish(ids[0], {nullptr, 0});
  CHECK_FALSE(operations.take_only(ids[3]));  // others have ended too
  const auto own = operations.take(ids[3]);
  REQUIRE(own);
  CHECK(own->outcome.peer == 3);
  CHECK(operations.take_first().id == ids[1]);
  CHECK(operations.take_only(ids[0])->id == ids[0]);
  CHECK_FALSE(operations.has_ended());
  CHECK_FALSE(operations.is_empty());
  operations.finish(ids[2], {});
  operations.take_first();
  CHECK(operations.is_empty());
}

TEST_CASE("all pending operations end, each with its own error and its peer") {
  P2pOperations operations;
  add(operations, receive_from(0));
  const Id ended = add(operations, receive_from(1));
  add(operations, receive_from(2));
  operations.finish(ended, {nullptr, 1});
  operations.finish_all([](const P2pOperations::Pending& pending) {
    return std::make_exception_ptr(std::runtime_error(pending.name()));
  });
  CHECK_FALSE(operations.has_pending());
  CHECK_FALSE(operations.take_first().outcome.error);
  for (const int peer : {0, 2}) {
    const auto outcome = operations.take_first().outcome;
    CHECK(outcome.peer == peer);
    CHECK_THROWS_WITH(std::rethrow_exception(outcome.error),
                      "recv of Float [3] from rank " + std::to_string(peer) + " with tag 7");
  }
}

TEST_CASE("a caller that waits for its operation is woken, and nothing is handed out") {
  std::mutex mutex;
  P2pOperations operations;
  P2pOperations::Awaited awaited;
  P2pOperations::Lock lock(mutex);
  P2pOperations::Pending pending = receive_from(1);
  pending.awaited = &awaited;
  const Id id = add(operations, std::move(pending));
  CHECK_FALSE(operations.await(lock, awaited, std::chrono::milliseconds{1}));
  auto finisher = std::async(std::launch::async, [&] {
    const std::lock_guard held(mutex);
    operations.finish(id, {nullptr, 1});
  });
  CHECK(operations.await(lock, awaited, kLong));
  CHECK(awaited.outcome.peer == 1);
  CHECK(operations.is_empty());
}

TEST_CASE("a full list has room when an operation ends, and its end tells who waits for room") {
  std::mutex mutex;
  P2pOperations operations;
  P2pOperations::Lock lock(mutex);
  const auto now = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < P2pOperations::kMaxPending; ++i) add(operations, receive_from(1));
  CHECK_FALSE(operations.wait_for_room(lock, now));
  auto other = std::async(std::launch::async, [&] {
    const std::lock_guard held(mutex);
    operations.finish(5, {});
  });
  CHECK(operations.wait_for_room(lock, now + kLong));
  add(operations, receive_from(1));
  CHECK_FALSE(operations.wait_for_room(lock, now));
  other = std::async(std::launch::async, [&] {
    const std::lock_guard held(mutex);
    operations.close();
  });
  CHECK(operations.wait_for_room(lock, now + kLong));
  CHECK(operations.is_closed());
}
