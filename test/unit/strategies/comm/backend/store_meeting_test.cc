// Ranks that meet in torch's own stores.
#include "strategies/comm/backend/store_meeting.h"

#include "strategies/comm/bootstrap/fresh_keys.h"
#include "test/support/catch.h"
#include "test/unit/strategies/free_port.h"
#include "test/unit/strategies/ranks.h"

using namespace dtrain;

namespace {

// Tells the board when its rank is about to wait.
class Telling : public test::PassedOn {
 public:
  Telling(StoreMeeting& place, test::SharedBoard& board) : PassedOn(place), board_(board) {}
  std::string take(const std::string& key, Deadline deadline) override {
    board_.put("waits", "yes");
    return PassedOn::take(key, deadline);
  }

 private:
  test::SharedBoard& board_;
};

}  // namespace

TEST_CASE("ranks that wait in a store of either kind hear of rank 0, which comes later") {
  const bool libuv = GENERATE(true, false);
  CAPTURE(libuv);
  const std::uint16_t port = test::free_port();
  test::SharedBoard board;
  const auto outcomes = test::run_ranks(2, [&](int rank) {
    c10d::TCPStoreOptions options;
    options.port = port;
    options.isServer = rank == 0;
    options.waitWorkers = false;
    options.useLibUV = libuv;
    options.timeout = std::chrono::seconds{20};
    const auto store = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{10};
    StoreMeeting place(store);
    std::string name;
    if (rank == 0) {
      board.take("waits", deadline);
      name = new_attempt(place, 0, 2, deadline);
      board.take("met", deadline);  // the store is here
    } else {
      Telling telling(place, board);
      name = new_attempt(telling, 1, 2, deadline);
      board.put("met", "yes");
    }
    return name;
  });
  test::require_all_returned(outcomes);
  CHECK(outcomes[0].said == outcomes[1].said);
}
