#pragma once
// What takes long to free (a store with a million keys), for an event loop that has others to serve: it is freed on a
// thread that lives only as long as there is something to free.
#include <cstddef>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "rendezvous/base/all_signals_blocked.h"

namespace dtrain {

class Discard {
 public:
  // So many wait; more are freed by whoever brings them.
  explicit Discard(std::size_t most) : most_(most) {}
  // Waits until all of it is freed.
  ~Discard() {
    if (thread_.joinable()) thread_.join();
  }
  Discard(const Discard&) = delete;
  Discard& operator=(const Discard&) = delete;

  // From one thread at a time. The last owner hands it over.
  void add(std::shared_ptr<void> thing) {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() >= most_) return;
    waiting_.push_back(std::move(thing));
    if (running_) return;
    if (thread_.joinable()) thread_.join();  // it has nothing left to do but to end
    const AllSignalsBlocked blocked;
    try {
      thread_ = std::thread([this] { run(); });
      running_ = true;
    } catch (const std::system_error&) {
      waiting_.clear();
    }
  }

 private:
  void run() {
    for (;;) {
      std::vector<std::shared_ptr<void>> now;
      {
        const std::lock_guard lock(mutex_);
        now.swap(waiting_);
        running_ = !now.empty();
      }
      if (now.empty()) return;
    }
  }

  const std::size_t most_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<void>> waiting_;
  bool running_ = false;
  std::thread thread_;
};

}  // namespace dtrain
