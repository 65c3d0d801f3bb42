// See monitored_barrier.h. Rank 0 tells the others that it has come, and they tell rank 0; when rank 0 has heard of
// all, it tells them that all have come. A rank waits for rank 0 until its own timeout, and for rank 0's second message
// longer, since rank 0's timeout may end later.
#include "strategies/comm/groups/monitored_barrier.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "dtrain/errors.h"
#include "strategies/comm/base/interrupt.h"
#include "strategies/comm/memory/shm_wait.h"
#include "strategies/comm/messages/p2p.h"

namespace dtrain {
namespace {

// The program's own messages have tags from 0 on.
enum Tag : int { kCame = -2, kAllCame = -3 };
// How much later than the timeout rank 0's answer may come.
constexpr std::chrono::seconds kForAnswer{30};
constexpr const char* kName = "monitored_barrier";

P2p::Request request(int peer, Tag tag, CommGroup::Timeout timeout) { return {peer, {tag, 0, kName}, timeout, {}}; }

void rethrow(const std::exception_ptr& error) {
  if (error) std::rethrow_exception(error);
}

void say(CommGroup& group, int to, Tag tag, CommGroup::Timeout timeout) {
  rethrow(group.p2p().send_now({}, request(to, tag, timeout)).error);
}

void hear(CommGroup& group, int from, Tag tag, CommGroup::Timeout timeout) {
  rethrow(group.p2p().receive_now({}, request(from, tag, timeout)).error);
}

// The ranks that have come to rank 0. Rank 0's receives share it, since they may outlive the call.
class Roll {
 public:
  explicit Roll(int ranks) : came_(static_cast<std::size_t>(ranks)) { came_[0] = true; }

  void came(int rank, const std::exception_ptr& error) {
    const std::lock_guard lock(mutex_);
    came_[static_cast<std::size_t>(rank)] = !error;
    if (error) error_ = error;
    changed_.notify_all();
  }

  // Wait until all have come, or until the deadline, and return the ranks that have not come. Throws the error of a
  // receive.
  std::vector<int> missing(ShmWait::Deadline deadline) {
    std::unique_lock lock(mutex_);
    const auto over = [this] {
      return error_ || std::all_of(came_.begin(), came_.end(), [](bool one) { return one; });
    };
    while (!changed_.wait_until(lock, std::min(deadline, ShmWait::after(kLookAround)), over)) {
      lock.unlock();
      check_interrupt();
      lock.lock();
      if (std::chrono::steady_clock::now() >= deadline) break;
    }
    rethrow(error_);
    std::vector<int> ranks;
    for (std::size_t r = 0; r < came_.size(); ++r)
      if (!came_[r]) ranks.push_back(static_cast<int>(r));
    return ranks;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> came_;
  std::exception_ptr error_;
};

void call_the_roll(CommGroup& group, int ranks, CommGroup::Timeout timeout) {
  const auto deadline = ShmWait::after(timeout);
  const auto roll = std::make_shared<Roll>(ranks);
  for (int r = 1; r < ranks; ++r) {
    // The receives get a later deadline than this thread, which is to know of all ranks before the group is broken.
    P2p::Request answer = request(r, kCame, timeout + kForAnswer);
    answer.done = [roll, r](const P2p::Outcome& outcome, const P2p::MakeWay&) { roll->came(r, outcome.error); };
    group.p2p().receive({}, std::move(answer));
    say(group, r, kCame, timeout);
  }
  const std::vector<int> missing = roll->missing(deadline);
  if (missing.empty()) {
    for (int r = 1; r < ranks; ++r) say(group, r, kAllCame, timeout);
    return;
  }
  std::string names;
  for (const int r : missing) names += fmt::format("{}rank {}", names.empty() ? "" : ", ", r);
  group.fail({FailureKind::timed_out, missing.front()}, kName,
             fmt::format("after {} ms these are missing: {}", timeout.count(), names));
}

}  // namespace

void monitored_barrier(CommGroup& group, int rank, int ranks, CommGroup::Timeout timeout) {
  try {
    if (rank == 0) return call_the_roll(group, ranks, timeout);
    say(group, 0, kCame, timeout);
    hear(group, 0, kCame, timeout);
    hear(group, 0, kAllCame, timeout + kForAnswer);
  } catch (const CollectiveError& error) {
    // The user knows nothing of these messages: their name is left out.
    const std::string text = error.what();
    const std::size_t fault = text.find(": rank ");
    if (fault == std::string::npos) throw;
    throw CollectiveError(error.kind(), error.rank(), fmt::format("dtrain: {}{}", kName, text.substr(fault)));
  } catch (...) {
    group.abort();  // an interrupt: the others must not wait for this rank
    throw;
  }
}

}  // namespace dtrain
