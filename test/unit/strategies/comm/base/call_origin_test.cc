// Whose call a collective is.
#include "strategies/comm/base/call_origin.h"

#include <thread>

#include "test/support/catch.h"

using namespace dtrain;
using Kind = CallOrigin::Kind;

TEST_CASE("an origin in words") {
  CHECK(CallOrigin{}.text().empty());
  CHECK(CallOrigin{Kind::ddp_backward, 1, 3}.text() == "Ddp backward, bucket 1 of 3");
  CHECK(CallOrigin{Kind::ddp_backward, 2}.text() == "Ddp backward, bucket 2");
  CHECK(CallOrigin{Kind::ddp_buffers}.text() == "Ddp forward: buffers");
  CHECK(CallOrigin{static_cast<Kind>(4711)}.text().empty());
}

TEST_CASE("an origin is its thread's, and ends with its scope") {
  const auto now = [] { return CallOrigin::current().text(); };
  {
    const CallsOf outer(Kind::ddp_join);
    CHECK(now() == "Ddp: join");
    {
      const CallsOf inner(CallOrigin{Kind::ddp_backward, 1, 1});
      CHECK(now() == "Ddp backward, bucket 1 of 1");
    }
    CHECK(now() == "Ddp: join");
    std::string there = "none";
    std::thread([&] { there = now(); }).join();
    CHECK(there.empty());
  }
  CHECK(now().empty());
}
