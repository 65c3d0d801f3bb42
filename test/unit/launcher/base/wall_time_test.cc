#include "launcher/base/wall_time.h"

#include <cstdlib>
#include <ctime>

#include "test/support/catch.h"

namespace dtrain::launcher {

TEST_CASE("times are written in the zone of TZ, with milliseconds") {
  const char* before = std::getenv("TZ");
  const std::string kept = before != nullptr ? before : "";
  auto in = [](const char* zone, int64_t ms) {
    ::setenv("TZ", zone, 1);
    ::tzset();
    return iso_time(std::chrono::system_clock::time_point(std::chrono::milliseconds(ms)));
  };
  CHECK(in("UTC0", 1795267323123) == "2026-11-21T13:22:03.123+00:00");
  CHECK(in("IST-5:30", 1795267323007) == "2026-11-21T18:52:03.007+05:30");
  CHECK(in("NST+3:30", 1795267323999) == "2026-11-21T09:52:03.999-03:30");
  CHECK(in("UTC0", -1) == "1969-12-31T23:59:59.999+00:00");
  before != nullptr ? ::setenv("TZ", kept.c_str(), 1) : ::unsetenv("TZ");
  ::tzset();
}

}  // namespace dtrain::launcher
