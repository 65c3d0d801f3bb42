#pragma once
// Waiting for threads that may add others while they run.
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace dtrain {

// `lock`, held, guards the threads; it is free while one is waited for.
inline void join_all(std::vector<std::thread>& threads, std::unique_lock<std::mutex>& lock) {
  while (!threads.empty()) {
    std::thread thread = std::move(threads.back());
    threads.pop_back();
    lock.unlock();
    thread.join();
    lock.lock();
  }
}

}  // namespace dtrain
