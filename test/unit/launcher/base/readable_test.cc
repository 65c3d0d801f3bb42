#include "launcher/base/readable.h"

#include "test/support/catch.h"

namespace dtrain::launcher {

TEST_CASE("bytes and durations read naturally") {
  using namespace std::chrono_literals;
  CHECK(readable_bytes(0) == "0 B");
  CHECK(readable_bytes(1023) == "1023 B");
  CHECK(readable_bytes(1024) == "1.0 KiB");
  CHECK(readable_bytes(1288490189) == "1.2 GiB");
  CHECK(readable_bytes(UINT64_MAX) == "16384.0 PiB");
  CHECK(readable_duration(0s) == "0 ms");
  CHECK(readable_duration(340ms) == "340 ms");
  CHECK(readable_duration(12390ms) == "12.3 s");
  CHECK(readable_duration(59999ms) == "59.9 s");
  CHECK(readable_duration(312s) == "5 min 12 s");
  CHECK(readable_duration(7385s) == "2 h 3 min");
}

TEST_CASE("ranks are folded into ranges") {
  CHECK(fold_ranks({4}) == "rank 4");
  CHECK(fold_ranks({1, 0}) == "ranks 0,1");
  CHECK(fold_ranks({4, 0, 2, 1}) == "ranks 0-2,4");
  CHECK(fold_ranks({0, 2, 3, 4, 5, 9}) == "ranks 0,2-5,9");
}

}  // namespace dtrain::launcher
