#include "data/rows/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace dtrain::data {

void for_each_task(std::size_t count, std::size_t threads, const std::function<void(std::size_t)>& task) {
  std::atomic<std::size_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::size_t lowest = count;
  std::exception_ptr error;
  const auto work = [&] {
    // A number that was taken is done: every lower one was taken before.
    while (!failed) {
      const std::size_t number = next++;
      if (number >= count) return;
      try {
        task(number);
      } catch (...) {
        const std::lock_guard lock(mutex);
        failed = true;
        if (number < lowest) {
          lowest = number;
          error = std::current_exception();
        }
      }
    }
  };
  {
    std::vector<std::jthread> others;
    for (std::size_t i = 1; i < std::min(threads, count); ++i) others.emplace_back(work);
    work();
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace dtrain::data
