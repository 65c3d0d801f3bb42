#pragma once
// The callers of a P2p, and its mutex. Callers go first: a mutex is not fair, and a thread that moves a large message
// would take it again and again. And callers are counted while they are within, for the end to wait for them.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

namespace dtrain {

class P2pCallers {
 public:
  using Lock = std::unique_lock<std::mutex>;

  std::mutex& mutex() { return mutex_; }

  // On a caller's thread.
  Lock lock() {
    waiting_.fetch_add(1);
    Lock lock(mutex_);
    if (waiting_.fetch_sub(1) == 1) passed_.notify_one();
    return lock;
  }
  // On the thread: those that wait for the mutex get it, for a millisecond at most.
  void let_in(Lock& lock) {
    if (waiting_.load() > 0)
      passed_.wait_for(lock, std::chrono::milliseconds{1}, [this] { return waiting_.load() == 0; });
  }

  // While one lives, a caller is within although it may release the mutex. Made and dropped with the mutex held.
  class Within {
   public:
    explicit Within(P2pCallers& callers) : callers_(callers) { ++callers_.within_; }
    ~Within() {
      if (--callers_.within_ == 0 && callers_.ends_) callers_.left_.notify_all();
    }
    Within(const Within&) = delete;
    Within& operator=(const Within&) = delete;

   private:
    P2pCallers& callers_;
  };
  // The end: return when no caller is within.
  void await_left(Lock& lock) {
    ends_ = true;
    left_.wait(lock, [this] { return within_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::atomic<int> waiting_{0};  // for the mutex
  int within_ = 0;
  bool ends_ = false;
  std::condition_variable passed_, left_;
};

}  // namespace dtrain
