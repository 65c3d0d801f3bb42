// Collectives of ranks that are held up at random moments, as on a busy machine: memory that is written again before
// all have read it shows as wrong data.
#include <signal.h>
#include <sys/time.h>

#include <ctime>
#include <random>

#include "test/support/catch.h"
#include "test/unit/strategies/collectives.h"

using namespace dtrain;
using namespace dtrain::test;

namespace {

constexpr std::int64_t kLongest = 300'000;  // nanoseconds that a rank is held up
constexpr int kEvery = 200;                 // microseconds

std::uint64_t the_state = 0;

std::int64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

void hold_up(int) {
  the_state = the_state * 6364136223846793005 + 1442695040888963407;
  const std::int64_t until = now_ns() + static_cast<std::int64_t>(the_state >> 33U) % kLongest;
  while (now_ns() < until) {
  }
}

void be_held_up(int rank) {
  the_state = static_cast<std::uint64_t>(rank) + 1;
  struct sigaction act {};
  act.sa_handler = hold_up;
  ::sigaction(SIGALRM, &act, nullptr);
  const itimerval timer{{0, kEvery}, {0, kEvery}};
  ::setitimer(ITIMER_REAL, &timer, nullptr);
}

using Numbers = std::vector<std::int32_t>;

// One rank's calls; every number is another one in every call, for every rank and element.
class Caller {
 public:
  Caller(CommGroup& group, int rank, int ranks) : group_(group), rank_(rank), ranks_(ranks) {}

  std::string call() {
    ++round_;
    const std::size_t count = random_() % 6000;
    const int root = static_cast<int>(random_() % static_cast<unsigned>(ranks_));
    switch (random_() % 5) {
      case 0:
        return all_reduce(count);
      case 1:
        return reduce(count, root);
      case 2:
        return broadcast(count, root);
      case 3:
        return all_gather(count);
      default:
        return reduce_scatter(count);
    }
  }

 private:
  std::int32_t value(int rank, std::size_t i) const {
    return static_cast<std::int32_t>((i * 31 + static_cast<std::size_t>(rank) * 7919 + round_ * 104729) % 65521);
  }
  Numbers of(int rank, std::size_t count, std::size_t from = 0) const {
    Numbers numbers(count);
    for (std::size_t i = 0; i < count; ++i) numbers[i] = value(rank, from + i);
    return numbers;
  }
  Numbers sum(std::size_t count, std::size_t from = 0) const {
    Numbers numbers(count);
    for (int r = 0; r < ranks_; ++r)
      for (std::size_t i = 0; i < count; ++i) numbers[i] += value(r, from + i);
    return numbers;
  }
  static std::byte* bytes(Numbers& numbers) { return reinterpret_cast<std::byte*>(numbers.data()); }
  static std::size_t size(const Numbers& numbers) { return numbers.size() * sizeof(std::int32_t); }
  std::string wrong(const char* op, const Numbers& found, const Numbers& expected) const {
    const auto first = std::mismatch(found.begin(), found.end(), expected.begin());
    if (first.first == found.end()) return "";
    return "call " + std::to_string(round_) + ", " + op + " of " + std::to_string(found.size()) + ": element " +
           std::to_string(first.first - found.begin()) + " is " + std::to_string(*first.first) + " and not " +
           std::to_string(*first.second);
  }

  std::string all_reduce(std::size_t count) {
    Numbers data = of(rank_, count);
    group_.all_reduce(bytes(data), count, ElementType::i32, Reduction::sum, kTimeout);
    return wrong("all_reduce", data, sum(count));
  }
  std::string reduce(std::size_t count, int root) {
    Numbers data = of(rank_, count);
    group_.reduce(bytes(data), count, ElementType::i32, Reduction::sum, root, kTimeout);
    return wrong("reduce", data, rank_ == root ? sum(count) : of(rank_, count));
  }
  std::string broadcast(std::size_t count, int root) {
    Numbers data = of(rank_, count);
    group_.broadcast(bytes(data), size(data), root, kTimeout);
    return wrong("broadcast", data, of(root, count));
  }
  std::string all_gather(std::size_t count) {
    Numbers data = of(rank_, count);
    std::vector<Numbers> all(static_cast<std::size_t>(ranks_), Numbers(count));
    std::vector<std::byte*> outputs;
    for (Numbers& numbers : all) outputs.push_back(bytes(numbers));
    group_.all_gather(bytes(data), outputs, size(data), kTimeout);
    for (int r = 0; r < ranks_; ++r) {
      const std::string found = wrong("all_gather", all[static_cast<std::size_t>(r)], of(r, count));
      if (!found.empty()) return found;
    }
    return "";
  }
  std::string reduce_scatter(std::size_t count) {
    Numbers data = of(rank_, count * static_cast<std::size_t>(ranks_)), own(count);
    std::vector<const std::byte*> inputs;
    for (std::size_t r = 0; r < static_cast<std::size_t>(ranks_); ++r)
      inputs.push_back(bytes(data) + r * count * sizeof(std::int32_t));
    group_.reduce_scatter(inputs, bytes(own), count, ElementType::i32, Reduction::sum, kTimeout);
    return wrong("reduce_scatter", own, sum(count, static_cast<std::size_t>(rank_) * count));
  }

  CommGroup& group_;
  const int rank_, ranks_;
  std::mt19937 random_{7};  // the same on all ranks
  std::size_t round_ = 0;
};

}  // namespace

TEST_CASE("ranks that are held up at random moments read nothing too late") {
  const int ranks = GENERATE(2, 3);
  SharedBoard board;
  const auto outcomes = run_ranks(ranks, [&](int rank) -> std::string {
    GroupOptions options;
    options.rank = rank;
    options.ranks = ranks;
    options.slot_bytes = 4096;  // most calls are rows of parts
    const auto group = form_group(board, options);
    be_held_up(rank);
    Caller caller(*group, rank, ranks);
    std::string wrong;
    for (int i = 0; i < 1000 && wrong.empty(); ++i) wrong = caller.call();
    const itimerval none{};
    ::setitimer(ITIMER_REAL, &none, nullptr);
    group->barrier(kTimeout);
    return wrong;
  });
  require_all_returned(outcomes);
  for (const auto& outcome : outcomes) CHECK(outcome.said == "");
}
