// Ranks that meet again and again in one store.
#include "strategies/comm/bootstrap/fresh_keys.h"

#include <algorithm>
#include <chrono>

#include "test/support/catch.h"
#include "test/unit/strategies/ranks.h"

using namespace dtrain;
using test::run_ranks;
using test::SharedBoard;

namespace {

std::chrono::steady_clock::time_point soon() { return std::chrono::steady_clock::now() + std::chrono::seconds{20}; }
std::chrono::steady_clock::time_point at_once() {
  return std::chrono::steady_clock::now() + std::chrono::milliseconds{1};
}

// The one name that all of these ranks are given.
std::string name_of_all(SharedBoard& board, int ranks) {
  const auto outcomes = run_ranks(ranks, [&](int rank) { return new_attempt(board, rank, ranks, soon()); });
  test::require_all_returned(outcomes);
  for (const auto& outcome : outcomes) CHECK(outcome.said == outcomes[0].said);
  return outcomes[0].said;
}

std::string error_of(SharedBoard& board, int rank, int ranks) {
  try {
    return "returned " + new_attempt(board, rank, ranks, at_once());
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("attempts in one store have names of their own, whatever was left there") {
  SharedBoard board;
  std::vector<std::string> names;
  const std::vector<int> sizes{2, 3, 3, 2, 4};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    CAPTURE(i);
    names.push_back(name_of_all(board, sizes[i]));
    // Some ranks of a round that never was: rank 0 or the others alone, once or twice.
    if (i % 2 == 0) CHECK_THAT(error_of(board, 0, 3), Catch::Contains("rank 1 did not come"));
    if (i % 3 == 0) CHECK_THAT(error_of(board, 2, 3), Catch::Contains("rank 0 did not answer"));
    if (i % 3 == 1) CHECK_THAT(error_of(board, 1, 4), Catch::Contains("rank 0 did not answer"));
  }
  std::sort(names.begin(), names.end());
  CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
}

TEST_CASE("ranks that came before rank 0 began anew follow it") {
  SharedBoard board;
  name_of_all(board, 2);
  // Rank 1 reads the answer of the attempt before, and then the next name; it waits there while rank 0 begins.
  struct Told : test::PassedOn {
    using PassedOn::PassedOn;
    std::string take(const std::string& key, Deadline deadline) override {
      if (key.find("/next") != std::string::npos) put("waits", "yes");
      return PassedOn::take(key, deadline);
    }
  };
  const auto outcomes = run_ranks(2, [&](int rank) -> std::string {
    if (rank == 0) {
      board.take("waits", soon());
      return new_attempt(board, 0, 2, soon());
    }
    Told place(board);
    return new_attempt(place, 1, 2, soon());
  });
  test::require_all_returned(outcomes);
  CHECK(outcomes[0].said == outcomes[1].said);
}

TEST_CASE("ranks that were told of different world sizes are all told so, and of a missing one too") {
  SharedBoard board;
  const auto sizes = run_ranks(3, [&](int rank) { return new_attempt(board, rank, rank == 1 ? 4 : 3, soon()); });
  for (const auto& outcome : sizes) {
    CHECK(outcome.threw);
    CHECK_THAT(outcome.said, Catch::Contains("rank 0 was told that the group has 3 ranks, and rank 1 that it has 4"));
  }
  // Rank 0 gives up waiting for rank 2 at once, and not for those that come.
  struct Hasty : test::PassedOn {
    using PassedOn::PassedOn;
    std::string take(const std::string& key, Deadline deadline) override {
      return PassedOn::take(key, key.find("/came/2") == std::string::npos ? deadline : at_once());
    }
  };
  const auto missing = run_ranks(4, [&](int rank) -> std::string {
    if (rank == 2) return "stays away";
    Hasty place(board);
    return new_attempt(place, rank, 4, soon());
  });
  for (const int rank : {0, 1, 3})
    CHECK_THAT(missing[static_cast<std::size_t>(rank)].said, Catch::Contains("rank 2 did not come"));
}
