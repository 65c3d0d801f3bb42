#pragma once
// The sends and receives of a rank: those that are pending, and those that have ended and whose callbacks are to be
// called. It knows nothing of links, failures or threads of its own. The mutex of the owner guards it.
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "strategies/comm/messages/p2p_core.h"

namespace dtrain {

class P2pOperations {
 public:
  using Id = P2pCore::Id;
  using Lock = std::unique_lock<std::mutex>;
  using Time = std::chrono::steady_clock::time_point;

  struct Outcome {
    std::exception_ptr error;  // null: the operation is done
    int peer = P2pCore::kAny;  // whose message it was
  };
  using MakeWay = std::function<void()>;
  using Done = std::function<void(const Outcome&, const MakeWay& make_way)>;
  struct Request {
    int peer = P2pCore::kAny;  // another rank; any for a receive
    P2pCore::Label label;
    std::chrono::milliseconds timeout{};
    Done done;
  };

  // For a caller that waits for its own operation.
  struct Awaited {
    Outcome outcome;
    std::atomic<bool> over{false};
  };
  struct Pending {
    bool sends;
    Request request;
    Time deadline;
    std::span<const std::byte> data;  // of a send
    std::span<std::byte> into;        // of a receive
    Awaited* awaited = nullptr;       // set: its caller waits, and there is no callback
    // For people: "send of Float [3] to rank 1 with tag 0".
    std::string name() const;
  };
  struct Ended {
    Id id;
    Done done;
    Outcome outcome;
  };

  // So many may be pending at a time.
  static constexpr std::size_t kMaxPending = 1U << 16;
  // Return when there is room for one more, or close() was called, or the time is over. False: there is no room.
  bool wait_for_room(Lock& lock, Time deadline);
  Id new_id() { return ++last_; }
  const Pending& add(Id id, Pending pending) { return pending_.emplace(id, std::move(pending)).first->second; }
  // No more are added. Who waits for room is told.
  void close();
  bool is_closed() const { return closed_; }

  bool has_pending() const { return !pending_.empty(); }
  bool has_ended() const { return !ended_.empty(); }
  bool is_empty() const { return pending_.empty() && ended_.empty(); }
  bool is_pending(Id id) const { return pending_.contains(id); }
  const std::map<Id, Pending>& pending() const { return pending_; }
  const Pending& at(Id id) const { return pending_.at(id); }

  // A pending operation ends: its caller is woken, or its callback is to be called.
  void finish(Id id, const Outcome& outcome);
  // All pending ones end, each with error_of(pending).
  template <class ErrorOf>
  void finish_all(ErrorOf error_of);

  // An operation that has ended, for this thread to call its callback: the first one, of which there must be one; the
  // one with this id; and that one only if no other has ended.
  Ended take_first();
  std::optional<Ended> take(Id id);
  std::optional<Ended> take_only(Id id) { return ended_.size() == 1 ? take(id) : std::nullopt; }

  // Wait until the operation is over, or the time is. True: it is over.
  bool await(Lock& lock, const Awaited& awaited, std::chrono::milliseconds time);

 private:
  std::map<Id, Pending> pending_;
  std::deque<Ended> ended_;
  Id last_ = 0;
  bool closed_ = false;
  std::condition_variable room_, over_;
};

template <class ErrorOf>
void P2pOperations::finish_all(ErrorOf error_of) {
  while (!pending_.empty()) {
    const auto& [id, pending] = *pending_.begin();
    finish(id, {error_of(pending), pending.request.peer});
  }
}

}  // namespace dtrain
