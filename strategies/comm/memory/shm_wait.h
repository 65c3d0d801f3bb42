#pragma once
// Waiting for the other ranks: spin or yield briefly, then sleep on the peer's word, with a deadline, and notice within
// a tenth of a second when a peer died, left, or some rank reported a failure. Arriving and waiting is for one thread
// at a time, the rest for any.
#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "strategies/comm/blame.h"
#include "strategies/comm/failure.h"
#include "strategies/comm/shm_segment.h"

namespace dtrain {

// A longer timeout counts as this one: the clock's own range ends.
constexpr std::chrono::hours kLongestTimeout{24 * 365};
// The longest a sleeper goes without looking for dead peers.
constexpr std::chrono::milliseconds kLookAround{100};

// Where ranks outnumber cores: who waits first leaves its core to the others for so long, again and again. One of them
// may be who it waits for, and to sleep and be woken takes as long as a small operation.
constexpr std::chrono::microseconds kYielding{100};

// What can be said of a process that did not come in time: that it is stopped, or nothing.
std::string why_late(int pid);

// One pidfd for each other rank: it tells that a process has ended, and cannot be fooled by a reused pid.
class PeerWatch {
 public:
  PeerWatch() = default;
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;
  ~PeerWatch();

  // Watch `pids`, indexed by rank; own_rank and those that are 0 are left out. One that is gone already has ended: the
  // first wait tells, and so all ranks hear of it.
  void watch(const std::vector<int>& pids, int own_rank);
  // Whether each rank's process has ended.
  std::vector<bool> ended() const;
  bool has_ended(int rank) const { return ends_within(rank, std::chrono::milliseconds{0}); }
  bool ends_within(int rank, std::chrono::milliseconds time) const;

 private:
  static constexpr int kGone = -2;
  std::vector<int> pidfds_;  // -1: not watched
};

class ShmWait {
 public:
  struct Options {
    std::chrono::microseconds spin{50};  // before sleeping; 0 where ranks outnumber cores: kYielding
  };

  ShmWait(const ShmSegment& segment, const PeerWatch& watch, int own_rank, Options options);

  // Whether each rank has a core of its own.
  bool has_cores() const { return options_.spin.count() > 0; }

  using Deadline = std::chrono::steady_clock::time_point;
  // At most kLongestTimeout from now.
  static Deadline after(std::chrono::milliseconds timeout);

  // A timeout that begins with the first wait that is not over at once: to read the clock takes as long as a small
  // collective's data. For one thread.
  class Limit {
   public:
    explicit Limit(std::chrono::milliseconds timeout) : timeout_(timeout) {}
    explicit Limit(Deadline deadline) : deadline_(deadline) {}
    Deadline deadline() const {
      if (!deadline_) deadline_ = after(timeout_);
      return *deadline_;
    }

   private:
    std::chrono::milliseconds timeout_{};
    mutable std::optional<Deadline> deadline_;
  };

  // Tell the others that this rank reached synchronisation point `point`.
  void arrive(std::uint32_t point);
  // Return when every rank has reached it. Throws CollectiveError; during() names the collective, asked only then.
  using Naming = std::function<std::string()>;
  void wait_all(std::uint32_t point, const Limit& limit, const Naming& during);

  bool failed() const { return stop_.load() || segment_.header().failure.load(std::memory_order_acquire) != 0; }
  // Throws the group's failure if it has one.
  void check(const std::string& during) const;
  // Record a failure for all ranks (the first one stands) and throw it.
  [[noreturn]] void fail(const Failure& failure, const std::string& during, const std::string& detail) const;
  // Record without throwing.
  void record(const Failure& failure) const noexcept;
  // The group's failure and what is known of it; nothing while it has none.
  struct Told {
    Failure failure;
    std::string detail;
  };
  std::optional<Told> told() const;
  bool knows(int rank) const { return rank >= 0 && rank < static_cast<int>(segment_.header().ranks); }
  // The group has ranks on other hosts. Before the first wait. `look` is called, while a wait lasts, each time that it
  // looks around, and may throw through fail(); `answer` is to tell ranks elsewhere that have asked that this one
  // waits.
  void look_elsewhere(std::function<void(const std::string& during)> look, std::function<void()> answer) {
    elsewhere_ = std::move(look);
    answer_elsewhere_ = std::move(answer);
  }
  // A rank elsewhere asks for this one. Any thread.
  void be_missed() noexcept { segment_.rank(own_rank_).missed.fetch_add(1); }
  // In a wait, and once as it begins, for what was asked before: whether anybody has asked, who is answered now.
  bool is_missed();
  // Make a wait of this process end with FailureKind::aborted; the other ranks are not told.
  void request_stop() noexcept { stop_.store(true); }

 private:
  bool comes_soon(int rank, std::uint32_t point) const;
  void wait_one(int rank, std::uint32_t point, Blame& blame, const Naming& during);
  void sleep_on(RankBlock& block, std::uint32_t point, Deadline deadline);
  void look_around(std::uint32_t point, Blame& blame, const std::string& during);
  void check_peers(std::uint32_t point, const std::string& during) const;
  void time_out(std::uint32_t point, Blame& blame, const std::string& during);
  bool reached(int rank, std::uint32_t point) const;

  const ShmSegment& segment_;
  const PeerWatch& watch_;
  const int own_rank_;
  const Options options_;
  std::function<void(const std::string&)> elsewhere_;
  std::function<void()> answer_elsewhere_;
  std::vector<std::uint32_t> asked_;  // by rank: its `missed` when it was asked last
  std::atomic<bool> stop_{false};
};

}  // namespace dtrain
