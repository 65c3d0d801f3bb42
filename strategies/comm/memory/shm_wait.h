#pragma once
// Waiting for the other ranks: a waiter spins or yields briefly, then sleeps on the peer's word, with a deadline.
// Within a tenth of a second it notices that a peer died or left, or that some rank reported a failure. One thread at a
// time arrives and waits; any thread may call the rest.
#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "strategies/comm/base/failure.h"
#include "strategies/comm/memory/blame.h"
#include "strategies/comm/memory/shm_segment.h"

namespace dtrain {

// The longest timeout; a longer one counts as this one, since the clock's range ends.
constexpr std::chrono::hours kLongestTimeout{24 * 365};
// The longest time that a sleeper does not look for dead peers.
constexpr std::chrono::milliseconds kLookAround{100};

// With more ranks than cores, a waiter yields its core for this long before it sleeps. The rank that it waits for may
// run on that core meanwhile, and to sleep and be woken takes as long as a small operation.
constexpr std::chrono::microseconds kYielding{100};

// Why a process did not come in time: a text if it is stopped, else an empty one.
std::string why_late(int pid);

// One pidfd for each other rank. A pidfd tells that a process has ended, and a reused pid does not deceive it.
class PeerWatch {
 public:
  PeerWatch() = default;
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;
  ~PeerWatch();

  // Watch `pids`, indexed by rank, except own_rank's and those that are 0. A process that is gone already counts as
  // ended: the first wait then tells all ranks.
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
    std::chrono::microseconds spin{50};  // before sleeping; 0: yield for kYielding
  };

  ShmWait(const ShmSegment& segment, const PeerWatch& watch, int own_rank, Options options);

  // Whether each rank has a core of its own.
  bool has_cores() const { return options_.spin.count() > 0; }
  std::chrono::microseconds spin() const { return options_.spin; }

  using Deadline = std::chrono::steady_clock::time_point;
  // At most kLongestTimeout from now.
  static Deadline after(std::chrono::milliseconds timeout);

  // A timeout that begins with the first wait that is not over at once: to read the clock takes as long as to move a
  // small collective's data. One thread uses it.
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
  // Return when every rank has reached `point`. Throws CollectiveError; during() then names the collective.
  using Naming = std::function<std::string()>;
  void wait_all(std::uint32_t point, const Limit& limit, const Naming& during);

  bool failed() const { return stop_.load() || segment_.header().failure.load(std::memory_order_acquire) != 0; }
  // Throws the group's failure if there is one.
  void check(const std::string& during) const;
  // Record a failure for all ranks (the first one stands) and throw it.
  [[noreturn]] void fail(const Failure& failure, const std::string& during, const std::string& detail) const;
  // Record a failure for all ranks (the first one stands).
  void record(const Failure& failure) const noexcept;
  // The group's failure and its detail; nothing while there is none.
  struct Told {
    Failure failure;
    std::string detail;
  };
  std::optional<Told> told() const;
  bool knows(int rank) const { return rank >= 0 && rank < static_cast<int>(segment_.header().ranks); }
  // For a group with ranks on other hosts, before the first wait. A wait calls `look` each time that it looks around;
  // `look` may throw through fail(). `answer` tells the ranks of other hosts that have asked that this rank waits.
  void look_elsewhere(std::function<void(const std::string& during)> look, std::function<void()> answer) {
    elsewhere_ = std::move(look);
    answer_elsewhere_ = std::move(answer);
  }
  // A rank of another host asks for this rank. Any thread.
  void be_missed() noexcept { segment_.rank(own_rank_).missed.fetch_add(1); }
  // Whether another rank has asked for this one; it is answered now. A wait calls this as it begins, and then each time
  // that it looks around.
  bool is_missed();
  // Make the waits of this process end with FailureKind::aborted. The other ranks are not told.
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
