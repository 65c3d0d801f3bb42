// Collectives over shared memory, by real processes.
#include <cmath>
#include <limits>

#include "strategies/comm/groups/form_group.h"
#include "test/support/catch.h"
#include "test/unit/strategies/collectives.h"

using namespace dtrain;
using test::error_of;
using test::harmed;
using test::require_all_returned;
using test::run_ranks;
using test::SharedBoard;

namespace {

constexpr auto kGroupTimeout = test::kTimeout;

GroupOptions group_options(int rank, int ranks, std::uint32_t slot_bytes = 1U << 20) {
  GroupOptions o;
  o.rank = rank;
  o.ranks = ranks;
  o.slot_bytes = slot_bytes;
  return o;
}

std::unique_ptr<CommGroup> form(GroupStore& place, int rank, int ranks) {
  return form_group(place, group_options(rank, ranks));
}

}  // namespace

TEST_CASE("all_reduce gives the reference's bits on every rank, for every type, reduction and size") {
  const int ranks = GENERATE(1, 2, 3, 4);
  // The small slot makes most sizes a row of steps.
  const std::uint32_t slot_bytes = GENERATE(4096U, 1U << 20);
  CAPTURE(ranks, slot_bytes);
  SharedBoard board;
  const auto outcomes = run_ranks(ranks, [&](int rank) {
    const auto formed = form_group(board, group_options(rank, ranks, slot_bytes));
    CommGroup& group = *formed;
    std::string wrong = test::check_every_type(group, rank, test::one_host(ranks));
    group.barrier(kGroupTimeout);
    return wrong;
  });
  require_all_returned(outcomes);
  for (const auto& outcome : outcomes) CHECK(outcome.said == "");
}

TEST_CASE("a NaN of any rank reaches all, through every reduction") {
  SharedBoard board;
  const auto outcomes = run_ranks(2, [&](int rank) -> std::string {
    const auto formed = form_group(board, group_options(rank, 2));
    CommGroup& group = *formed;
    std::string kept;
    for (int owner = 0; owner < 2; ++owner) {
      for (const Reduction reduction : {Reduction::sum, Reduction::product, Reduction::min, Reduction::max}) {
        float value = rank == owner ? std::numeric_limits<float>::quiet_NaN() : 1.0F;
        group.all_reduce(reinterpret_cast<std::byte*>(&value), 1, ElementType::f32, reduction, kGroupTimeout);
        kept += std::isnan(value) ? '1' : '0';
      }
    }
    group.barrier(kGroupTimeout);
    return kept;
  });
  require_all_returned(outcomes);
  for (const auto& outcome : outcomes) CHECK(outcome.said == "11111111");
}

TEST_CASE("broadcast, all_gather and reduce_scatter move the right bytes") {
  const int ranks = GENERATE(2, 3);
  SharedBoard board;
  const auto outcomes = run_ranks(ranks, [&](int rank) -> std::string {
    const auto formed = form_group(board, group_options(rank, ranks, 4096));
    CommGroup& group = *formed;
    std::string wrong = test::check_moves(group, rank, test::one_host(ranks));
    group.barrier(kGroupTimeout);
    return wrong;
  });
  require_all_returned(outcomes);
  for (const auto& outcome : outcomes) CHECK(outcome.said == "");
}

TEST_CASE("reduce, gather and scatter give the root's result to the root, or take it from there") {
  const int ranks = GENERATE(2, 3);
  SharedBoard board;
  const auto outcomes = run_ranks(ranks, [&](int rank) -> std::string {
    const auto formed = form_group(board, group_options(rank, ranks, 4096));
    CommGroup& group = *formed;
    std::string wrong = test::check_rooted(group, rank, test::one_host(ranks));
    group.barrier(kGroupTimeout);
    return wrong;
  });
  require_all_returned(outcomes);
  for (const auto& outcome : outcomes) CHECK(outcome.said == "");
}

TEST_CASE("all_to_all moves parts of any sizes") {
  const int ranks = GENERATE(2, 3, 4);
  SharedBoard board;
  const auto outcomes = run_ranks(ranks, [&](int rank) -> std::string {
    const auto formed = form_group(board, group_options(rank, ranks, 4096));
    CommGroup& group = *formed;
    std::string wrong = test::check_all_to_all(group, rank, ranks);
    group.barrier(kGroupTimeout);
    return wrong;
  });
  require_all_returned(outcomes);
  for (const auto& outcome : outcomes) CHECK(outcome.said == "");
}

TEST_CASE("all_to_all of a rank whose parts are equal beside one whose parts are not") {
  SharedBoard board;
  const auto outcomes = run_ranks(2, [&](int rank) -> std::string {
    const auto group = form_group(board, group_options(rank, 2, 4096));
    std::string wrong;
    for (const std::size_t bytes : {0U, 8U, 5000U}) {
      // What rank 1 has for itself is of another size.
      const auto size_of = [&](int from, int to) { return bytes + static_cast<std::size_t>(from * to); };
      test::Parts has, gets;
      for (int r = 0; r < 2; ++r) {
        has.push_back(test::pattern(size_of(rank, r), rank * 10 + r));
        gets.emplace_back(size_of(r, rank));
      }
      test::exchange(*group, has, gets, kGroupTimeout);
      for (int r = 0; r < 2; ++r)
        if (gets[static_cast<std::size_t>(r)] != test::pattern(size_of(r, rank), r * 10 + rank))
          wrong += std::to_string(bytes) + " bytes from rank " + std::to_string(r) + "; ";
    }
    group->barrier(kGroupTimeout);
    return wrong;
  });
  require_all_returned(outcomes);
  for (const auto& outcome : outcomes) CHECK(outcome.said == "");
}

TEST_CASE("who only gives goes ahead of the others by one operation") {
  SharedBoard board;
  const auto outcomes = run_ranks(2, [&](int rank) -> std::string {
    const auto group = form_group(board, group_options(rank, 2, 4096));
    constexpr std::size_t kBytes = 3000;
    if (rank == 0) {  // it is done before the other has begun
      std::vector<std::byte> data = test::pattern(kBytes, 1);
      group->broadcast(data.data(), kBytes, 0, kGroupTimeout);
      board.put("gone ahead", "");
      std::fill(data.begin(), data.end(), std::byte{});  // its own again
    } else {
      board.take("gone ahead", std::chrono::steady_clock::now() + kGroupTimeout);
      std::vector<std::byte> data(kBytes);
      group->broadcast(data.data(), kBytes, 0, kGroupTimeout);
      if (data != test::pattern(kBytes, 1)) return "broadcast";
    }
    // The rows that follow use both slots again and again, and each rank goes ahead in turn.
    for (int i = 0; i < 1000; ++i) {
      const int root = i / 3 % 2;
      const std::size_t bytes = i % 7 == 0 ? 9000 : 100;
      std::vector<std::byte> data = rank == root ? test::pattern(bytes, i) : std::vector<std::byte>(bytes);
      group->broadcast(data.data(), bytes, root, kGroupTimeout);
      if (data != test::pattern(bytes, i)) return "broadcast " + std::to_string(i);
      const auto own = test::pattern(bytes, i + rank);
      test::Parts all(rank == root ? 2 : 0, std::vector<std::byte>(bytes));
      group->gather(own.data(), test::places_of(all), bytes, root, kGroupTimeout);
      for (std::size_t r = 0; r < all.size(); ++r)
        if (all[r] != test::pattern(bytes, i + static_cast<int>(r))) return "gather " + std::to_string(i);
    }
    group->barrier(kGroupTimeout);
    return "";
  });
  require_all_returned(outcomes);
  for (const auto& outcome : outcomes) CHECK(outcome.said == "");
}

TEST_CASE("who has gone ahead is told with its next operation of one that called something else") {
  SharedBoard board;
  const auto outcomes = run_ranks(2, [&](int rank) {
    const auto group = form_group(board, group_options(rank, 2));
    std::byte data{};
    return error_of([&] {
      if (rank == 0) group->broadcast(&data, 1, 0, kGroupTimeout);
      group->barrier(kGroupTimeout);
    });
  });
  for (const auto& outcome : outcomes) {
    CAPTURE(outcome.said);
    CHECK(outcome.said.find("rank 0 called broadcast 1 bytes from rank 0, rank 1 called barrier") != std::string::npos);
  }
}

TEST_CASE("parts of all_to_all that do not fit are named on every rank") {
  SharedBoard board;
  const auto outcomes = run_ranks(3, [&](int rank) -> std::string {
    const auto formed = form_group(board, group_options(rank, 3));
    CommGroup& group = *formed;
    test::Parts has(3, std::vector<std::byte>(8)), gets = has;
    if (rank == 2) gets[1].resize(4);
    try {
      test::exchange(group, has, gets, kGroupTimeout);
    } catch (const CollectiveError& error) {
      return error.what();
    }
    return "no error";
  });
  require_all_returned(outcomes);
  for (const auto& outcome : outcomes) {
    CAPTURE(outcome.said);
    CHECK(outcome.said.find("rank 2 (pid ") != std::string::npos);
  }
  CHECK(outcomes[0].said.find("rank 1 has 8 bytes for rank 2, which expects 4") != std::string::npos);
}

TEST_CASE("more ranks than cores go on") {
  constexpr int kRanks = 8;
  SharedBoard board;
  const auto outcomes = run_ranks(kRanks, [&](int rank) -> std::string {
    const auto formed = form_group(board, group_options(rank, kRanks));
    CommGroup& group = *formed;
    double sum = 0;
    for (int i = 0; i < 300; ++i) {
      double value = rank + i;
      group.all_reduce(reinterpret_cast<std::byte*>(&value), 1, ElementType::f64, Reduction::sum, kGroupTimeout);
      sum += value;
    }
    return std::to_string(sum);
  });
  require_all_returned(outcomes);
  for (const auto& outcome : outcomes) CHECK(outcome.said == std::to_string(300.0 * 28 + 8.0 * 299 * 300 / 2));
}

TEST_CASE("a rank that is killed inside a collective is named by all others within a second, and leaves nothing") {
  const auto before = test::shared_memory_names();
  const int victim = GENERATE(0, 1, 2);
  const auto outcomes = harmed(
      form, 3, victim, [](CommGroup&) { ::raise(SIGKILL); }, kGroupTimeout);
  for (int r = 0; r < 3; ++r) {
    const auto& outcome = outcomes[static_cast<std::size_t>(r)];
    CAPTURE(r, victim, outcome.said);
    if (r == victim) {
      CHECK(outcome.signal == SIGKILL);
    } else {
      CHECK(outcome.said.find(test::start_of(FailureKind::peer_died, victim)) == 0);
      CHECK(outcome.seconds < 5.0);
    }
  }
  CHECK(test::shared_memory_names() == before);
}

TEST_CASE("a stopped rank makes the others miss their deadline, which says that it is stopped") {
  const auto outcomes = harmed(
      form, 2, 1, [](CommGroup&) { ::kill(::getpid(), SIGSTOP); }, std::chrono::milliseconds{700},
      std::chrono::seconds{3});
  CAPTURE(outcomes[0].said);
  CHECK(outcomes[0].said.find(test::start_of(FailureKind::timed_out, 1)) == 0);
  CHECK(outcomes[0].said.find("it is stopped") != std::string::npos);
}

TEST_CASE("a rank that leaves is told apart from one that died") {
  const auto outcomes = harmed(
      form, 2, 0, [](CommGroup&) {}, kGroupTimeout);
  CAPTURE(outcomes[1].said);
  const bool left = outcomes[1].said.find(test::start_of(FailureKind::peer_left, 0)) == 0;
  CHECK(left);
}

TEST_CASE("an abort reaches all ranks") {
  const auto outcomes = harmed(
      form, 3, 2, [](CommGroup& group) { group.abort(); }, kGroupTimeout);
  for (int r = 0; r < 2; ++r) {
    CAPTURE(outcomes[static_cast<std::size_t>(r)].said);
    CHECK(outcomes[static_cast<std::size_t>(r)].said.find(test::start_of(FailureKind::aborted, 2)) == 0);
  }
}

TEST_CASE("ranks that call different collectives are told which") {
  const auto outcomes = harmed(
      form, 2, 1,
      [](CommGroup& group) {
        float value = 0;
        try {
          group.all_reduce(reinterpret_cast<std::byte*>(&value), 1, ElementType::f32, Reduction::max, kGroupTimeout);
        } catch (const CollectiveError&) {
        }
      },
      kGroupTimeout);
  CAPTURE(outcomes[0].said);
  CHECK(outcomes[0].said.find(test::start_of(FailureKind::mismatched, 1)) == 0);
  CHECK(outcomes[0].said.find(
            "rank 0 called all_reduce sum of 100000 float32, rank 1 called all_reduce max of 1 float32") !=
        std::string::npos);
}
