// The state of a loader as a text.
#include "data/order/order_state.h"

#include "test/support/catch.h"

using namespace dtrain::data;

TEST_CASE("a state is the same after it was a text, in at most 100 bytes") {
  const OrderState largest{UINT64_MAX, INT64_MAX, UINT64_MAX, INT64_MAX, UINT64_MAX};
  for (const OrderState& state : {OrderState{}, largest, OrderState{3, 4096, 7, 0, 0xABCDEF}}) {
    const std::string text = to_text(state);
    CHECK(text.size() <= 100);
    CHECK(order_state(text) == state);
  }
  CHECK(to_text({3, 4096, 7, 255, 0xABCDEF}) == "rows1-3-1000-7-ff-abcdef");
}

TEST_CASE("what is no state is none") {
  for (const char* text : {"", "rows1", "rows1-1-2-3-4", "rows1-1-2-3-4-5-6", "rows1-1-2-3-4-5 ", "rows2-1-2-3-4-5",
                           "rows1-1--2-3-4-5", "rows1-1-g-3-4-5", "rows1-1-8000000000000000-3-4-5",
                           "rows1-1-2-3-ffffffffffffffff-5", "rows1-10000000000000000-2-3-4-5"}) {
    CHECK_FALSE(order_state(text));
  }
}
