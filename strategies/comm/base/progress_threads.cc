// See progress_threads.h.
#include "strategies/comm/base/progress_threads.h"

#include <pthread.h>

#include <utility>

namespace dtrain {

void ProgressThreads::start() {
  threads_.emplace_back([this] {
    ::pthread_setname_np(::pthread_self(), name_);
    body_();
  });
  ++idle_;
}

void ProgressThreads::make_way() {
  const std::lock_guard lock(mutex_);
  if (idle_ == 0) start();
  release(true);
}

void ProgressThreads::join(Lock& lock) {
  while (!threads_.empty()) {
    std::thread thread = std::move(threads_.back());
    threads_.pop_back();
    lock.unlock();
    thread.join();
    lock.lock();
  }
}

}  // namespace dtrain
