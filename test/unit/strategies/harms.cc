// See harms.h.
#include "test/unit/strategies/harms.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <random>
#include <stdexcept>

#include "strategies/comm/memory/arena.h"
#include "test/unit/strategies/fake_hosts.h"
#include "test/unit/strategies/p2p_calls.h"

namespace dtrain::test {
namespace {

using Clock = std::chrono::steady_clock;
using Random = std::mt19937_64;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kSlower = 10;
#else
constexpr int kSlower = 1;
#endif
constexpr auto kPatience = std::chrono::milliseconds{30'000};         // for whoever is dead
constexpr auto kDeadline = std::chrono::milliseconds{300} * kSlower;  // for whoever is stopped
// What a machine that does other things besides may take until a rank that has heard of it says so.
constexpr auto kSoon = std::chrono::milliseconds{3'000};

std::size_t pick(Random& random, std::size_t below) { return static_cast<std::size_t>(random() % below); }

// When the victim was hit: its handler notes it.
struct Moment {
  std::atomic<std::int64_t> nanoseconds{0};
};
Moment* the_moment = nullptr;
int the_signal = 0;

void hit(int) {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  the_moment->nanoseconds = now.tv_sec * 1'000'000'000 + now.tv_nsec;
  ::raise(the_signal);
}

void be_hit(const Harm& harm) {
  the_signal = harm.stops ? SIGSTOP : SIGKILL;
  ::signal(SIGALRM, hit);
  itimerval timer{};
  timer.it_value.tv_usec = std::max<std::int64_t>(1, harm.after.count());
  ::setitimer(ITIMER_REAL, &timer, nullptr);
}

// One rank's calls. The numbers that a collective gives are checked, so that none ends well with half of the data.
class Caller {
 public:
  Caller(CommGroup& group, const Harm& harm, int rank)
      : group_(group),
        random_(harm.seed),
        rank_(rank),
        ranks_(static_cast<int>(harm.letters.size())),
        timeout_(harm.stops ? kDeadline : kPatience),
        messages_(!harm.stops) {}

  // The same on all ranks, in every turn.
  void call() {
    const std::size_t sizes[] = {0, 1, 100, 5'000, 70'000, 400'000};
    const std::size_t count = sizes[pick(random_, std::size(sizes))];
    const int root = static_cast<int>(pick(random_, static_cast<std::size_t>(ranks_)));
    // Messages are left out where a rank is stopped: whoever waits for one that itself waits is late all the same.
    switch (pick(random_, messages_ ? 9 : 8)) {
      case 0:
        return group_.barrier(timeout_);
      case 1:
        return all_reduce(count, pick(random_, 2) == 0);
      case 2:
        return broadcast(count, root);
      case 3:
        return all_gather(count);
      case 4:
        return reduce(count, root);
      case 5:
        return gather_and_scatter(count, root);
      case 6:
        return all_to_all(count);
      case 7:
        return reduce_scatter(count);
      default:
        return pass_on(count);
    }
  }

 private:
  static std::byte* bytes(std::vector<float>& data) { return reinterpret_cast<std::byte*>(data.data()); }
  std::vector<float> own(std::size_t count) const { return std::vector<float>(count, static_cast<float>(rank_ + 1)); }
  float sum() const { return static_cast<float>(ranks_ * (ranks_ + 1) / 2); }

  template <class Numbers>
  static void require(const Numbers& data, float value, const char* op) {
    if (std::any_of(data.begin(), data.end(), [&](float x) { return x != value; }))
      throw std::logic_error(std::string(op) + " ended well with wrong data");
  }

  void all_reduce(std::size_t count, bool shared) {
    auto* memory = shared && count > 0 ? Arena::own()->allocate(count * sizeof(float)) : nullptr;
    if (memory == nullptr) {
      auto data = own(count);
      group_.all_reduce(bytes(data), count, ElementType::f32, Reduction::sum, timeout_);
      return require(data, sum(), "all_reduce");
    }
    const std::span data(reinterpret_cast<float*>(memory), count);
    std::fill(data.begin(), data.end(), static_cast<float>(rank_ + 1));
    group_.all_reduce(memory, count, ElementType::f32, Reduction::sum, timeout_);
    require(data, sum(), "all_reduce in arenas");
    Arena::own()->free(memory);
  }

  void broadcast(std::size_t count, int root) {
    auto data = own(count);
    group_.broadcast(bytes(data), count * sizeof(float), root, timeout_);
    require(data, static_cast<float>(root + 1), "broadcast");
  }

  void reduce(std::size_t count, int root) {
    auto data = own(count);
    group_.reduce(bytes(data), count, ElementType::f32, Reduction::sum, root, timeout_);
    require(data, rank_ == root ? sum() : static_cast<float>(rank_ + 1), "reduce");
  }

  void all_gather(std::size_t count) {
    auto all = for_each_rank(count);
    group_.all_gather(bytes(own_ = own(count)), places(all), count * sizeof(float), timeout_);
    require_ranks(all, "all_gather");
  }

  void gather_and_scatter(std::size_t count, int root) {
    auto all = for_each_rank(rank_ == root ? count : 0);
    auto to = rank_ == root ? places(all) : std::vector<std::byte*>();
    group_.gather(bytes(own_ = own(count)), to, count * sizeof(float), root, timeout_);
    require_ranks(all, "gather");
    std::vector<float> back(count);
    group_.scatter({to.begin(), to.end()}, bytes(back), count * sizeof(float), root, timeout_);
    require(back, static_cast<float>(rank_ + 1), "scatter");
  }

  void all_to_all(std::size_t count) {
    auto gives = for_each_rank(count), gets = for_each_rank(count);
    std::vector<std::span<const std::byte>> inputs;
    std::vector<std::span<std::byte>> outputs;
    for (auto& data : gives) std::fill(data.begin(), data.end(), static_cast<float>(rank_ + 1));
    for (auto& data : gives) inputs.push_back(std::as_bytes(std::span(data)));
    for (auto& data : gets) outputs.push_back(std::as_writable_bytes(std::span(data)));
    group_.all_to_all(inputs, outputs, timeout_);
    require_ranks(gets, "all_to_all");
  }

  void reduce_scatter(std::size_t count) {
    auto all = for_each_rank(count);
    for (auto& data : all) std::fill(data.begin(), data.end(), static_cast<float>(rank_ + 1));
    std::vector<float> output(count);
    const auto from = places(all);
    group_.reduce_scatter({from.begin(), from.end()}, bytes(output), count, ElementType::f32, Reduction::sum, timeout_);
    require(output, sum(), "reduce_scatter");
  }

  // A message to the next rank, one from the rank before.
  void pass_on(std::size_t bytes) {
    const int next = (rank_ + 1) % ranks_, before = (rank_ + ranks_ - 1) % ranks_;
    const auto sent = send(group_, message_of(bytes, rank_), next, 0, timeout_);
    const auto received = receive(group_, bytes, before, 0, timeout_);
    received->wait();
    sent->wait();
    if (received->data != message_of(bytes, before)) throw std::logic_error("a message came with wrong data");
  }

  std::vector<std::vector<float>> for_each_rank(std::size_t count) const {
    return std::vector<std::vector<float>>(static_cast<std::size_t>(ranks_), std::vector<float>(count));
  }
  static std::vector<std::byte*> places(std::vector<std::vector<float>>& all) {
    std::vector<std::byte*> found;
    for (auto& data : all) found.push_back(bytes(data));
    return found;
  }
  static void require_ranks(const std::vector<std::vector<float>>& all, const char* op) {
    for (std::size_t r = 0; r < all.size(); ++r) require(all[r], static_cast<float>(r + 1), op);
  }

  CommGroup& group_;
  Random random_;
  const int rank_, ranks_;
  const std::chrono::milliseconds timeout_;
  const bool messages_;
  std::vector<float> own_;
};

// What one rank says: its error, when it came, and how many calls were made before.
std::string live(const Harm& harm, int rank, GroupStore& board) {
  const auto formed = form_on(board, harm.letters, rank, 64 * 1024, kPatience);
  formed->barrier(kPatience);
  if (rank == harm.victim) be_hit(harm);
  Caller caller(*formed, harm, rank);
  std::uint64_t calls = 0;
  try {
    for (;; ++calls) caller.call();
  } catch (const CollectiveError& error) {
    const auto now = std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
    return fmt::format("{} {} {} {} {}", static_cast<int>(error.kind()), error.rank(), now, calls, error.what());
  }
}

struct Said {
  int kind = 0, rank = 0;
  std::int64_t at = 0;
  std::uint64_t calls = 0;
};

Said parse(const std::string& text) {
  Said said;
  if (std::sscanf(text.c_str(), "%d %d %ld %lu ", &said.kind, &said.rank, &said.at, &said.calls) != 4)
    throw std::runtime_error("no error: " + text);
  return said;
}

}  // namespace

std::string Harm::text() const {
  return fmt::format("seed {}: hosts {}, rank {} {} {} us after the group was formed: ", seed, letters, victim,
                     stops ? "stopped" : "killed", after.count());
}

Harm harm_of(std::uint64_t seed) {
  const char* const layouts[] = {"aa", "aaa", "aaaa", "ab", "abc", "aab", "aabb", "abab"};
  Random random(seed);
  Harm harm;
  harm.seed = seed;
  harm.letters = layouts[pick(random, std::size(layouts))];
  harm.victim = static_cast<int>(pick(random, harm.letters.size()));
  harm.stops = pick(random, 2) == 0;
  harm.after = std::chrono::microseconds(pick(random, pick(random, 2) == 0 ? 2'000 : 20'000));
  return harm;
}

Harmed carry_out(const Harm& harm) {
  void* memory = ::mmap(nullptr, sizeof(Moment), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("mmap");
  the_moment = new (memory) Moment;
  SharedBoard board;
  const auto outcomes =
      run_ranks(static_cast<int>(harm.letters.size()), [&](int rank) { return live(harm, rank, board); });
  Harmed harmed;
  const auto kind = static_cast<int>(harm.stops ? FailureKind::timed_out : FailureKind::peer_died);
  const auto bound = harm.stops ? kDeadline + kSoon : kSoon;
  for (std::size_t r = 0; r < outcomes.size(); ++r) {
    const RankOutcome& outcome = outcomes[r];
    const auto note = [&](const std::string& what) { harmed.wrong += fmt::format("rank {} {}; ", r, what); };
    if (static_cast<int>(r) == harm.victim) {
      if (outcome.signal != SIGKILL) note("was not hit: " + outcome.said);
      continue;
    }
    if (!outcome.exited || outcome.threw) {
      note(outcome.exited ? outcome.said : fmt::format("ended by signal {}", outcome.signal));
      continue;
    }
    const Said said = parse(outcome.said);
    const auto took = std::chrono::nanoseconds(said.at - the_moment->nanoseconds);
    harmed.seconds = std::max(harmed.seconds, std::chrono::duration<double>(took).count());
    harmed.calls = std::max(harmed.calls, said.calls);
    if (said.kind != kind || said.rank != harm.victim) note(outcome.said);
    if (took > bound) note(fmt::format("said so {:.2f} s after", harmed.seconds));
  }
  ::munmap(memory, sizeof(Moment));
  return harmed;
}

}  // namespace dtrain::test
