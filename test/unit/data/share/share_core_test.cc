// One reader for the ranks of a node: what it does when a rank is late, stops, or goes.
#include "data/share/share_core.h"

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "data/base/tail_heap.h"
#include "test/support/catch.h"

using namespace dtrain::data;
using namespace std::chrono_literals;

namespace {

constexpr ShareLimits limits{.ring_rows = 100, .join = 10s, .lag = 30s};
using Answer = ShareCore::Answer;
using Verdict = ShareCore::Verdict;

// A node in play: the reader as data/loader/node_reader.cc runs it, and ranks that do what they like.
class Node {
 public:
  // `expected` may be another number than that of the ranks, as it is that of the epoch before.
  Node(std::uint32_t seed, int ranks, int expected)
      : draw_(seed), core_(limits, expected, 0, 0ms), ranks_(static_cast<std::size_t>(ranks)) {}

  void play(int steps) {
    for (int step = 0; step < steps && !ended_; ++step) {
      now_ += std::chrono::milliseconds(pick(400));
      Rank& rank = ranks_[pick(ranks_.size())];
      act(rank);
      read();
    }
  }

  // From here on each rank that is alive takes rows. They all get on, or the reader ends.
  void settle() {
    for (Rank& rank : ranks_) rank.stopped = rank.frozen = false;
    const std::int64_t goal = shown_ + 5 * limits.ring_rows;
    for (int step = 0; step < 2000 && !ended_ && shown_ < goal; ++step) {
      now_ += 100ms;
      for (Rank& rank : ranks_) {
        if (rank.member) take(rank);
      }
      read();
    }
    CHECK((ended_ || shown_ >= goal));
  }

 private:
  struct Rank {
    std::optional<std::size_t> member;
    ShareCore::Seen words;
    bool stopped = false;  // its program asks for nothing
    bool frozen = false;   // it has stopped while it copies
  };

  std::size_t pick(std::size_t below) { return std::uniform_int_distribution<std::size_t>(0, below - 1)(draw_); }

  void act(Rank& rank) {
    const std::size_t what = pick(100);
    if (!rank.member) {
      if (what < 30) ask(rank);
    } else if (what < 2) {
      core_.left(*rank.member);
      rank = {};
    } else if (what < 4) {
      rank.stopped = !rank.stopped;
      rank.words.starving = false;
    } else if (what < 5) {
      rank.frozen = true;
      rank.words.copying = true;
    } else {
      take(rank);
    }
  }

  void ask(Rank& rank) {
    const int number = static_cast<int>(&rank - ranks_.data());
    const Answer answer = core_.ask(number);
    // Rows that a member has still to take are never gone, and rows that are gone are given to nobody.
    CHECK((answer == Answer::welcome) == (floor_ == 0));
    if (answer != Answer::welcome) return;
    rank.member = static_cast<std::size_t>(number);
    rank.words = {};
    core_.joined(*rank.member, number);
  }

  void take(Rank& rank) {
    if (rank.stopped || rank.frozen) return;
    // Its own rows, then those of others, which need not be there yet.
    if (rank.words.passed < shown_) {
      CHECK(rank.words.passed >= released_);
      const std::int64_t row = rank.words.passed;
      rank.words.passed += static_cast<std::int64_t>(pick(static_cast<std::size_t>(shown_ - row) + 1));
      for (std::int64_t own = row; own < rank.words.passed; own += 3) CHECK(read_tail(own) == tail_of(own));
    }
    if (pick(4) == 0) rank.words.passed += static_cast<std::int64_t>(pick(20));
    // It may have enough batches ready, and its program may not wait for one.
    rank.words.wants = rank.words.passed >= shown_ && pick(4) != 0;
    rank.words.starving = rank.words.wants && pick(4) != 0;
  }

  void read() {
    for (const Rank& rank : ranks_) {
      if (rank.member) core_.saw(*rank.member, rank.words);
    }
    const std::int64_t floor = core_.floor(now_);
    CHECK(std::min(floor, shown_) >= released_);
    for (const Rank& rank : ranks_) {
      if (rank.member) CHECK(floor <= rank.words.passed);
    }
    for (; released_ < std::min(floor, shown_); ++released_) {
      heap_.free(tails_.front());
      tails_.pop_front();
    }
    floor_ = floor;
    const bool at_end = shown_ == epoch_end_;
    const std::int64_t next = at_end ? shown_ : std::min(shown_ + static_cast<std::int64_t>(pick(25)) + 1, epoch_end_);
    if (floor >= (at_end ? epoch_end_ : core_.needed_for(next))) {
      if (at_end && !begins_next_epoch()) return;
      if (next > shown_) core_.shown(now_);
      for (; shown_ < next; ++shown_) write_tail(shown_);
      CHECK(shown_ - released_ <= limits.ring_rows);
      return;
    }
    const Verdict verdict = core_.blocked(now_);
    if (verdict.kind == Verdict::end) {
      ended_ = true;
      const bool none =
          std::none_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.member.has_value(); });
      const bool frozen = std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.frozen; });
      CHECK((none || frozen));
    } else if (verdict.kind == Verdict::expel) {
      Rank& rank = ranks_[verdict.member];
      CHECK(rank.member);
      CHECK_FALSE(rank.words.copying);
      CHECK(rank.words.passed == floor);
      core_.left(verdict.member);
      rank = {};
    }
  }

  // It rests until somebody wants the next epoch, or none is left.
  bool begins_next_epoch() {
    const bool is_wanted =
        std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.member && rank.words.wants; });
    CHECK(core_.is_wanted() == is_wanted);
    if (is_wanted) {
      epoch_end_ += epoch_rows;
    } else {
      const Verdict verdict = core_.blocked(now_);
      const bool none = std::none_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return !!rank.member; });
      CHECK(verdict.kind == (none ? Verdict::end : Verdict::wait));
      ended_ = none;
    }
    return is_wanted;
  }

  // A row has a string of its own. Members read it in the memory that the reader writes.
  static std::string tail_of(std::int64_t row) {
    return std::string(static_cast<std::size_t>(row * row % 90), static_cast<char>('a' + row % 26));
  }
  void write_tail(std::int64_t row) {
    const std::string text = tail_of(row);
    const std::array<std::int64_t, 2> offsets{0, static_cast<std::int64_t>(text.size())};
    const ColumnSpan column{reinterpret_cast<const std::byte*>(text.data()), offsets.data()};
    tails_.push_back(heap_.write(layout_, {&column, 1}, 0));
  }
  std::string read_tail(std::int64_t row) const {
    std::vector<std::byte> tail;
    TailHeap(1, piece, memory_).read(tails_[static_cast<std::size_t>(row - released_)].first, tail);
    const auto bytes = TailHeap::bytes(tail.data(), 0, 1);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  std::mt19937 draw_;
  ShareCore core_;
  std::vector<Rank> ranks_;
  ShareCore::Time now_{0};
  static constexpr std::int64_t epoch_rows = 330;
  std::int64_t shown_ = 0, released_ = 0, floor_ = 0, epoch_end_ = epoch_rows;
  bool ended_ = false;

  static constexpr std::size_t piece = 32;
  const RowLayout layout_{{{"word", {{"word", ElementType::uint8, 0, true}}}}};
  // Enough for the rows of the ring, and no more.
  mutable std::vector<std::byte> memory_{static_cast<std::size_t>(limits.ring_rows) * 4 * piece};
  TailHeap heap_{1, piece, memory_};
  std::deque<TailHeap::Tail> tails_;  // of the rows from released_ to shown_
};

}  // namespace

TEST_CASE("a shared reader never frees rows that a rank needs, and never stands still for long") {
  const auto seed = GENERATE(range(0U, 3000U));
  CAPTURE(seed);
  const int ranks = 1 + static_cast<int>(seed % 8);
  Node node(seed, ranks, std::max(ranks + static_cast<int>(seed / 8 % 4) - 2, 1));
  node.play(300);
  node.settle();
}

TEST_CASE("the first rows wait for ranks that have not come, for a while") {
  ShareCore core(limits, 3, 40, 0ms);
  core.joined(0, 0);
  core.saw(0, {.passed = 140, .starving = true});
  CHECK(core.floor(9999ms) == 40);
  CHECK(core.blocked(9999ms).kind == Verdict::wait);
  CHECK_FALSE(core.missing(9999ms));
  CHECK(core.ask(1) == Answer::welcome);
  core.joined(1, 1);
  core.saw(1, {.passed = 60});
  CHECK(core.floor(10s) == 60);
  CHECK(core.missing(10s) == 1);
  CHECK(core.known() == 2);
  CHECK_FALSE(core.missing(11s));
  CHECK(core.ask(2) == Answer::late);
  CHECK(core.ask(1) == Answer::again);
  // The next reader waits for it, too.
  for (int times = 0; times < 2; ++times) core.reads_alone(2);
  CHECK(core.known() == 3);
}

TEST_CASE("the first rows do not wait for a rank that can only read alone") {
  ShareCore core(limits, 2, 0, 0ms);
  core.joined(0, 0);
  core.saw(0, {.passed = 30});
  CHECK(core.floor(1s) == 0);
  core.reads_alone(1);
  CHECK(core.floor(1s) == 30);
  CHECK(core.missing(10s) == 0);
  ShareCore again(limits, 3, 0, 0ms);
  again.reads_alone(1);
  again.joined(0, 1);  // it has come again
  CHECK(again.known() == 1);
}

TEST_CASE("which ranks come does not matter, nor if more do than came before") {
  ShareCore core(limits, 3, 0, 0ms);
  for (const int rank : {1, 2, 3}) core.joined(static_cast<std::size_t>(rank), rank);
  CHECK(core.missing(10s) == 0);
  CHECK(core.known() == 3);
  core.joined(0, 0);
  CHECK(core.known() == 4);
}

TEST_CASE("when all ranks have come nobody waits") {
  ShareCore core(limits, 2, 0, 0ms);
  for (const int rank : {0, 1}) core.joined(static_cast<std::size_t>(rank), rank);
  for (const std::size_t member : {0U, 1U}) core.saw(member, {.passed = 30});
  CHECK(core.floor(1ms) == 30);
  CHECK(core.needed_for(130) == 30);
}

TEST_CASE("a rank that asks for nothing keeps the others waiting for thirty seconds, and no longer") {
  ShareCore core(limits, 2, 0, 0ms);
  for (const int rank : {0, 1}) core.joined(static_cast<std::size_t>(rank), rank);
  core.saw(0, {.passed = 10});
  core.saw(1, {.passed = 110});
  CHECK(core.floor(1s) == 10);
  CHECK(core.blocked(100s).kind == Verdict::wait);  // nobody needs rows
  core.saw(1, {.passed = 110, .starving = true});
  CHECK(core.blocked(129s).kind == Verdict::wait);
  const Verdict verdict = core.blocked(130s);
  CHECK(verdict.kind == Verdict::expel);
  CHECK(verdict.member == 0);
  core.left(0);
  CHECK(core.floor(130s) == 110);
}

TEST_CASE("the next epoch begins when a rank wants a row of it, however long that takes") {
  ShareCore core(limits, 2, 0, 0ms);
  for (const int rank : {0, 1}) core.joined(static_cast<std::size_t>(rank), rank);
  for (const std::size_t member : {0U, 1U}) core.saw(member, {.passed = 330});
  CHECK_FALSE(core.is_wanted());
  CHECK(core.blocked(1000s).kind == Verdict::wait);
  core.saw(1, {.passed = 330, .wants = true});
  CHECK(core.is_wanted());
  core.left(1);
  CHECK_FALSE(core.is_wanted());
  core.left(0);
  CHECK(core.blocked(1001s).kind == Verdict::end);
}

TEST_CASE("while a row group is read nobody is late") {
  ShareCore core(limits, 2, 0, 0ms);
  for (const int rank : {0, 1}) core.joined(static_cast<std::size_t>(rank), rank);
  for (const std::size_t member : {0U, 1U}) core.saw(member, {.starving = true});
  core.shown(100s);
  CHECK(core.blocked(129s).kind == Verdict::wait);
  CHECK(core.blocked(130s).kind == Verdict::expel);
}

TEST_CASE("memory that a stopped rank copies from is not written again") {
  ShareCore core(limits, 2, 0, 0ms);
  for (const int rank : {0, 1}) core.joined(static_cast<std::size_t>(rank), rank);
  core.saw(0, {.copying = true});
  core.saw(1, {.passed = 100, .starving = true});
  CHECK(core.blocked(1s).kind == Verdict::wait);
  CHECK(core.blocked(31s).kind == Verdict::end);
}
