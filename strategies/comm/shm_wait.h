#pragma once
// Waiting for the other ranks: spin briefly, then sleep on the peer's word, with a deadline, and notice within a tenth
// of a second when a peer died, left, or some rank reported a failure. Arriving and waiting is for one thread at a
// time, the rest for any.
#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "strategies/comm/failure.h"
#include "strategies/comm/shm_segment.h"

namespace dtrain {

// A longer timeout counts as this one: the clock's own range ends.
constexpr std::chrono::hours kLongestTimeout{24 * 365};
// The longest a sleeper goes without looking for dead peers.
constexpr std::chrono::milliseconds kLookAround{100};

// What can be said of a process that did not come in time: that it is stopped, or nothing.
std::string why_late(int pid);

// One pidfd for each other rank: it tells that a process has ended, and cannot be fooled by a reused pid.
class PeerWatch {
 public:
  PeerWatch() = default;
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;
  ~PeerWatch();

  // Watch `pids`, indexed by rank; own_rank and those that are 0 are left out. Throws CollectiveError where one is gone
  // already.
  void watch(const std::vector<int>& pids, int own_rank);
  // Whether each rank's process has ended.
  std::vector<bool> ended() const;
  bool has_ended(int rank) const;

 private:
  std::vector<int> pidfds_;
};

class ShmWait {
 public:
  struct Options {
    std::chrono::microseconds spin{50};  // before sleeping; 0 where ranks outnumber cores
  };

  ShmWait(const ShmSegment& segment, const PeerWatch& watch, int own_rank, Options options);

  using Deadline = std::chrono::steady_clock::time_point;
  // At most kLongestTimeout from now.
  static Deadline after(std::chrono::milliseconds timeout);

  // Tell the others that this rank reached synchronisation point `point`.
  void arrive(std::uint32_t point);
  // Return when every rank has reached it. Throws CollectiveError; during() names the collective, asked only then.
  using Naming = std::function<std::string()>;
  void wait_all(std::uint32_t point, Deadline deadline, const Naming& during);

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
  // Called, while a wait lasts, each time that it looks around; may throw through fail(). Before the first wait.
  void look_elsewhere(std::function<void(const std::string& during)> look) { elsewhere_ = std::move(look); }
  // Make a wait of this process end with FailureKind::aborted; the other ranks are not told.
  void request_stop() noexcept { stop_.store(true); }

 private:
  void wait_one(int rank, std::uint32_t point, Deadline deadline, const Naming& during);
  void sleep_on(RankBlock& block, std::uint32_t point, Deadline deadline);
  void look_around(std::uint32_t point, Deadline deadline, const std::string& during) const;
  void check_peers(std::uint32_t point, const std::string& during) const;
  void time_out(std::uint32_t point, const std::string& during) const;
  bool reached(int rank, std::uint32_t point) const;

  const ShmSegment& segment_;
  const PeerWatch& watch_;
  const int own_rank_;
  const Options options_;
  std::function<void(const std::string&)> elsewhere_;
  std::atomic<bool> stop_{false};
};

}  // namespace dtrain
