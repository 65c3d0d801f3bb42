#pragma once
// Threads of which one at a time works. The one that works may call code that takes long, or that waits for later work:
// before that it makes way, and another thread takes over, a new one where none is idle.
//
// The mutex of the owner guards all of this: callers hold it, where nothing else is said.
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace dtrain {

class ProgressThreads {
 public:
  using Lock = std::unique_lock<std::mutex>;

  // `name` is what the system calls the threads (15 letters at most). `body` is what each of them does: it locks the
  // mutex and calls take_turns().
  ProgressThreads(std::mutex& mutex, const char* name, std::function<void()> body)
      : mutex_(mutex), name_(name), body_(std::move(body)) {}
  ProgressThreads(const ProgressThreads&) = delete;
  ProgressThreads& operator=(const ProgressThreads&) = delete;

  // Start one more thread.
  void start();
  // Whether there is a thread, until join().
  bool have_started() const { return !threads_.empty(); }

  // On a thread: each time that nobody else works and has_work() is true, take the turn and call step(lock) until there
  // is no more work. A step may release the mutex meanwhile, and returns false if it has made way. Returns when
  // is_over() is true.
  template <class HasWork, class IsOver, class Step>
  void take_turns(Lock& lock, HasWork has_work, IsOver is_over, Step step);

  // A caller may work in place of the threads: it takes the turn, which must be free, and releases it afterwards.
  // `notify`: there is work for the threads, or an end.
  bool is_taken() const { return taken_; }
  void take() { taken_ = true; }
  void release(bool notify) {
    taken_ = false;
    if (notify || awaiting_free_ > 0) turn_.notify_all();
  }
  // Return when the turn is free and has_work() is false.
  template <class HasWork>
  void await_free(Lock& lock, HasWork has_work);

  // There is new work, for one thread; or an end, for all.
  void notify_one() { turn_.notify_one(); }
  void notify_all() { turn_.notify_all(); }

  // Within a step, without the mutex: another thread has the turn from now on.
  void make_way();

  // Return when all threads have, also those that they start meanwhile. The mutex is free in between.
  void join(Lock& lock);

 private:
  std::mutex& mutex_;
  const char* const name_;
  const std::function<void()> body_;
  std::condition_variable turn_;
  bool taken_ = false;
  int idle_ = 0;           // threads that could take the next turn
  int awaiting_free_ = 0;  // callers in await_free()
  std::vector<std::thread> threads_;
};

template <class HasWork, class IsOver, class Step>
void ProgressThreads::take_turns(Lock& lock, HasWork has_work, IsOver is_over, Step step) {
  while (true) {
    turn_.wait(lock, [&] { return !taken_ && (has_work() || is_over()); });
    --idle_;
    if (is_over()) return;
    taken_ = true;
    bool kept = true;
    while (kept && has_work() && !is_over()) kept = step(lock);
    ++idle_;
    if (kept) release(is_over());
  }
}

template <class HasWork>
void ProgressThreads::await_free(Lock& lock, HasWork has_work) {
  ++awaiting_free_;
  turn_.wait(lock, [&] { return !taken_ && !has_work(); });
  --awaiting_free_;
}

}  // namespace dtrain
