#pragma once
// Between the thread that reads and the program that trains: what is ready, at most `depth` of it.
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

namespace dtrain::data {

template <typename Item>
class ReadyQueue {
 public:
  explicit ReadyQueue(std::size_t depth) : depth_(depth) {}

  // Waits for room, which stays as long as nobody else pushes. False: closed.
  bool await_room() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return closed_ || items_.size() < depth_; });
    return !closed_;
  }

  // Waits for room. False: closed.
  bool push(Item item) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return closed_ || items_.size() < depth_; });
    if (closed_) return false;
    items_.push_back(std::move(item));
    changed_.notify_all();
    return true;
  }

  // Waits for an item. The pushing thread always pushes another one, or a last one that says that there is none.
  Item pop() {
    std::unique_lock lock(mutex_);
    is_wanted_ = true;
    changed_.wait(lock, [&] { return !items_.empty(); });
    is_wanted_ = false;
    Item item = std::move(items_.front());
    items_.pop_front();
    changed_.notify_all();
    return item;
  }

  bool has_item() {
    const std::lock_guard lock(mutex_);
    return !items_.empty();
  }

  // Waits for an item, but no longer than this. False: there is none.
  bool wait(std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    is_wanted_ = true;
    return changed_.wait_for(lock, limit, [&] { return !items_.empty(); });
  }

  // Somebody has come for an item, and there is none yet. Who asks again and again, and never waits, waits too.
  bool is_asked() {
    const std::lock_guard lock(mutex_);
    return is_wanted_ && items_.empty();
  }

  // push() waits no longer.
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

 private:
  const std::size_t depth_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;
  bool closed_ = false;
  bool is_wanted_ = false;  // since an item was taken
};

}  // namespace dtrain::data
