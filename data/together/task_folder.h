#pragma once
// Tasks that several processes share, on one host or on several that see the same folder. A task has one result,
// whoever dies: who works on it holds a lock, and the result gets its name by a link.
//   PHASE/00003.lock   who works on task 3, and when that process last showed that it goes on: the time of change
//   PHASE/00003.done   its result
//   failed             why all of the work ends
#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "data/together/task_core.h"

namespace dtrain::data {

// Another process of the work has failed, and has said why.
struct OtherFailed {};

struct Seat {
  std::size_t rank = 0, count = 1;  // of the processes that share the work
};

class TaskFolder {
 public:
  static constexpr TaskTime kPatience = std::chrono::minutes(10);
  // `folder` is there.
  TaskFolder(std::string folder, Seat seat, TaskTime patience = kPatience)
      : folder_(std::move(folder)), seat_(seat), patience_(patience) {}

  // Says that the task goes on; a task that takes long calls it again and again.
  using Touch = std::function<void()>;
  using Task = std::function<std::string(std::size_t task, const Touch& touch)>;
  using Take = std::function<void(std::size_t task, std::string_view result)>;
  // Until each of the tasks has its result: `task` makes it, on some threads, if no other process does. Then `take`
  // gets all results, in the order of the tasks. `phase`: for names and people. Throws OtherFailed, what `task` throws,
  // and DataError: all that is left is with other processes, and for `patience` none has ended a task or touched it.
  void share(const std::string& phase, std::size_t count, std::size_t threads, const Task& task, const Take& take);

  // All other processes end. The first one that fails counts.
  void fail(const std::string& why) const;

  // How many tasks of a phase have their result. Nothing: no process has begun it.
  std::optional<std::size_t> results(const std::string& phase) const;

  // A file that is being written.
  std::string draft() const;

 private:
  class Watch;
  bool try_task(const std::string& beside, std::size_t number, const Task& task) const;
  void check_others() const;
  TaskTime touch_every() const;

  const std::string folder_;
  const Seat seat_;
  const TaskTime patience_;
};

}  // namespace dtrain::data
