// What waits to be written.
#include "rendezvous/base/byte_queue.h"

#include "test/support/catch.h"

using namespace dtrain;

TEST_CASE("byte queue: the rest of a long text is adopted with its memory") {
  ByteQueue queue;
  std::string text(100'000, 'a');
  text.back() = 'z';
  const char* const made = text.data();
  queue.adopt(std::move(text), 40'000);
  CHECK(queue.size() == 40'000);
  CHECK(queue.front().data() == made + 60'000);
  CHECK(queue.front().back() == 'z');
  queue.append("b");
  CHECK(queue.size() == 40'001);
  queue.take(40'000);
  CHECK(queue.front() == "b");
}

TEST_CASE("byte queue: behind other bytes the rest is appended") {
  ByteQueue queue;
  queue.append("ab");
  queue.adopt("xyz", 2);
  CHECK(queue.front() == "abyz");
  queue.take(4);
  CHECK(queue.empty());
}
