// The debug mode in which ranks tell each other what they call.
#include "strategies/comm/groups/call_check.h"

#include <cstdlib>

#include "strategies/collectives/collectives.h"
#include "test/parity/joined.h"
#include "test/support/catch.h"

using namespace dtrain;

namespace {

// For the ranks that are forked while it lives.
struct Checking {
  Checking() { ::setenv("DTRAIN_CHECK_CALLS", "1", 1); }
  ~Checking() { ::unsetenv("DTRAIN_CHECK_CALLS"); }
};

using Step = std::function<void(Session&, bool other)>;

// What each of two ranks is told where rank 1 makes the other call.
std::vector<std::string> told(const Step& call) {
  const auto run = [&](Session& session) -> std::string {
    try {
      call(session, session.rank() == 1);
    } catch (const CollectiveError& error) {
      return error.kind() == FailureKind::mismatched && error.rank() == 1 ? error.what() : "another error";
    }
    return "nothing";
  };
  return test::said_by(test::outcomes_of(2, run, false));
}

void require_told(const Step& call, const std::string& line) {
  const Checking checking;
  for (const std::string& one : told(call)) CHECK_THAT(one, Catch::Contains(line));
}

}  // namespace

TEST_CASE("calls that differ in a type or a shape are named on every rank where calls are checked") {
  const auto type = [](bool other) { return other ? torch::kInt : torch::kFloat; };
  const Step moves = [&](Session& session, bool other) { session.broadcast(torch::zeros({2}, type(other))); };
  CHECK(told(moves) == std::vector<std::string>{"nothing", "nothing"});  // as many bytes
  require_told(moves,
               "rank 0 called broadcast of Float [2], root rank 0, rank 1 called broadcast of Int [2], root rank 0");
  require_told(
      [](Session& session, bool other) {
        session.all_reduce(torch::zeros(other ? std::vector<std::int64_t>{3, 2} : std::vector<std::int64_t>{2, 3}));
      },
      "rank 0 called all_reduce sum of Float [2, 3], rank 1 called all_reduce sum of Float [3, 2]");
  require_told(
      [&](Session& session, bool other) {
        session.world().all_gather(torch::zeros({4}, type(other)), torch::zeros({2}, type(other)));
      },
      "rank 1 called all_gather_single of Int [4]");
  require_told(
      [&](Session& session, bool other) {
        session.world().all_to_all(torch::zeros({4}, type(other)), torch::zeros({4}, type(other)));
      },
      "rank 0 called all_to_all_single of Float, rank 1 called all_to_all_single of Int");
  require_told([&](Session& session, bool other) { other ? session.barrier() : session.all_reduce(torch::zeros({1})); },
               "rank 0 called all_reduce sum of Float [1], rank 1 called barrier");
}

TEST_CASE("what ranks call rightly goes on where calls are checked") {
  const Checking checking;
  const auto run = [](Session& session) -> std::string {
    const Group world = session.world();
    const int rank = session.rank();
    const auto of = [](double value, std::int64_t count = 2) { return torch::full({count}, value); };
    torch::Tensor sum = of(rank + 1), all = of(0, 6);
    world.all_reduce(sum);
    world.all_gather(all, sum);
    std::vector<torch::Tensor> own{of(rank)};
    std::vector<std::vector<torch::Tensor>> gathered;
    if (rank == 2) gathered.push_back({of(9), of(9), of(9)});
    c10d::GatherOptions to;
    to.rootRank = 2;
    world.process_group()->gather(gathered, own, to)->wait();
    // Parts of other sizes on every rank.
    std::vector<torch::Tensor> sends, receives;
    for (int r = 0; r < 3; ++r) {
      sends.push_back(of(rank, r + 1));
      receives.push_back(of(9, rank + 1));
    }
    world.process_group()->alltoall(receives, sends)->wait();
    const Group some = session.new_group({0, 2});
    torch::Tensor part = of(1);
    if (rank != 1) some.all_reduce(part);
    world.barrier();
    const bool right = sum.equal(of(6)) && all.equal(of(6, 6)) && receives[1].equal(of(1, rank + 1)) &&
                       part.equal(of(rank == 1 ? 1 : 2)) && (rank != 2 || gathered[0][1].equal(of(1)));
    return right ? "right" : "wrong";
  };
  for (const auto& outcome : test::outcomes_of(3, run)) CHECK(outcome.said == "right");
}

TEST_CASE("a long call is told by its first part and a hash of all of it") {
  const std::string shared(400, 'x');
  const CallRecord one = record_of(shared + "1"), two = record_of(shared + "2");
  CHECK(text_of(one) == text_of(two));
  CHECK(first_other({one, one, one}) == std::nullopt);
  CHECK(first_other({one, one, two, two}) == 2);
}

TEST_CASE("whether calls are checked") {
  const auto checked = [](const char* ours, const char* torch) {
    ours != nullptr ? ::setenv("DTRAIN_CHECK_CALLS", ours, 1) : ::unsetenv("DTRAIN_CHECK_CALLS");
    torch != nullptr ? ::setenv("TORCH_DISTRIBUTED_DEBUG", torch, 1) : ::unsetenv("TORCH_DISTRIBUTED_DEBUG");
    const bool found = checks_calls();
    ::unsetenv("DTRAIN_CHECK_CALLS");
    ::unsetenv("TORCH_DISTRIBUTED_DEBUG");
    return found;
  };
  CHECK_FALSE(checked(nullptr, nullptr));
  CHECK(checked("1", nullptr));
  CHECK(checked(nullptr, "detail"));
  CHECK_FALSE(checked(nullptr, "INFO"));
  CHECK_FALSE(checked("0", "DETAIL"));
  CHECK_THROWS_WITH(checked("yes", nullptr), "dtrain: DTRAIN_CHECK_CALLS is 'yes'; it must be 1 or 0 (default)");
  ::unsetenv("DTRAIN_CHECK_CALLS");
}
