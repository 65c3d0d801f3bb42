// What is ready, and whether somebody waits for it.
#include "data/loader/ready_queue.h"

#include <thread>

#include "test/support/catch.h"

using namespace dtrain::data;
using namespace std::chrono_literals;

TEST_CASE("a program that only looks whether a batch is there waits for it") {
  ReadyQueue<int> queue(2);
  CHECK_FALSE(queue.is_asked());
  CHECK_FALSE(queue.wait(0ms));
  CHECK(queue.is_asked());
  CHECK(queue.push(7));
  CHECK_FALSE(queue.is_asked());
  CHECK(queue.wait(0ms));
  CHECK(queue.pop() == 7);
  CHECK_FALSE(queue.is_asked());
}

TEST_CASE("a batch is made when there is room for it") {
  ReadyQueue<int> queue(1);
  CHECK(queue.await_room());
  CHECK(queue.push(1));
  int taken = 0;
  std::thread taking([&] { taken = queue.pop(); });
  CHECK(queue.await_room());
  taking.join();
  CHECK(taken == 1);
  CHECK_FALSE(queue.has_item());
  CHECK(queue.push(2));
  queue.close();
  CHECK_FALSE(queue.await_room());
}

TEST_CASE("nothing is pushed to who has closed") {
  ReadyQueue<int> queue(1);
  CHECK(queue.push(1));
  queue.close();
  CHECK_FALSE(queue.push(2));
  CHECK(queue.pop() == 1);
}
