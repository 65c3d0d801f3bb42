#pragma once
// Operations that are carried out one at a time, in the order of their calls: by a progress thread, or by the caller
// where nothing is before its operation. It knows nothing of tensors or groups.
//
// The mutex of the owner guards all of this: callers hold it, where nothing else is said.
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "strategies/comm/base/interrupt.h"
#include "strategies/comm/base/progress_threads.h"

namespace dtrain {

class OperationQueue {
 public:
  using Lock = ProgressThreads::Lock;
  using MakeWay = std::function<void()>;

  class Operation {
   public:
    Operation() = default;
    Operation(const Operation&) = delete;
    Operation& operator=(const Operation&) = delete;
    virtual ~Operation() = default;
    // On a progress thread, without the mutex. Code that may take long, or wait for later operations, begins with
    // make_way().
    virtual void carry_out(const MakeWay& make_way) = 0;
  };

  // So many may wait; torch's Reducer has a handful.
  static constexpr std::size_t kMaxQueued = 4096;

  // Takes the mutex.
  explicit OperationQueue(std::mutex& mutex) : threads_(mutex, "dtrain-comm", [this, &mutex] { take_turns(mutex); }) {
    const std::lock_guard lock(mutex);
    threads_.start();
  }

  // Whether an operation would be the next one: nothing is under way or waits.
  bool is_free() const { return !stops_ && !threads_.is_taken() && waiting_.empty(); }
  // Carry out `action` as the operation under way, on this thread and without the mutex. The queue must be free.
  template <class Action>
  void occupy(Lock& lock, Action action);

  // Return when there is room for one more, or after stop(), or when the time is over. False: there is no room.
  bool wait_for_room(Lock& lock, std::chrono::milliseconds time) {
    return room_.wait_for(lock, time, [this] { return waiting_.size() < kMaxQueued || stops_; });
  }
  void push(std::unique_ptr<Operation> operation) {
    waiting_.push_back(std::move(operation));
    if (!threads_.is_taken()) threads_.notify_one();
  }
  // Return when nothing is under way or waits.
  void await_free(Lock& lock) {
    threads_.await_free(lock, [this] { return !waiting_.empty(); });
  }

  // Nothing more may be pushed. Return when what waits has been carried out and the threads have ended.
  void stop(Lock& lock) {
    stops_ = true;
    threads_.notify_all();
    room_.notify_all();
    threads_.join(lock);
  }
  bool stops() const { return stops_; }

 private:
  void take_turns(std::mutex& mutex) {
    Lock lock(mutex);
    threads_.take_turns(
        lock, [this] { return !waiting_.empty(); }, [this] { return stops_ && waiting_.empty(); },
        [this](Lock& held) { return carry_out_first(held); });
  }
  bool carry_out_first(Lock& lock);

  std::deque<std::unique_ptr<Operation>> waiting_;
  bool stops_ = false;
  std::condition_variable room_;
  ProgressThreads threads_;
};

template <class Action>
void OperationQueue::occupy(Lock& lock, Action action) {
  threads_.take();
  lock.unlock();
  {
    const CarryingOut here;
    action();
  }
  lock.lock();
  threads_.release(stops_ || !waiting_.empty());
}

// False: another thread has the turn now.
inline bool OperationQueue::carry_out_first(Lock& lock) {
  std::unique_ptr<Operation> first = std::move(waiting_.front());
  waiting_.pop_front();
  room_.notify_all();
  lock.unlock();
  bool kept = true;
  first->carry_out([&] {
    if (std::exchange(kept, false)) threads_.make_way();
  });
  first.reset();
  lock.lock();
  return kept;
}

}  // namespace dtrain
