#pragma once
// Which of several tasks a process works on next, while other processes take some of them. Pure.
//
//   open --take--> ours --done--> done
//    ^              `--held--> held: another process has it
//    `-----looked-----------------'
#include <chrono>
#include <cstddef>
#include <optional>
#include <vector>

namespace dtrain::data {

using TaskTime = std::chrono::milliseconds;  // of a clock that only goes on

struct TaskStep {
  // take: try `task`, and say held() or done(). look: wait for a moment, see which results are there, and say looked().
  enum class What { take, look, finished, late } what = What::look;
  std::size_t task = 0;
};

class TaskCore {
 public:
  // `first`: the task to begin with, so that processes begin at different ones. `patience`: late comes when for so
  // long no task has got its result, no other process has shown that it works, and this process has none in work.
  TaskCore(std::size_t count, std::size_t first, TaskTime patience, TaskTime now);

  TaskStep next(TaskTime now);
  void held(std::size_t task);                // nothing, if its result has been seen since next()
  void done(std::size_t task, TaskTime now);  // its result is there, whoever has made it
  void looked();
  void alive(TaskTime now);  // another process works on one of them
  bool is_done(std::size_t task) const { return states_[task] == State::done; }
  // Of those without a result the first one.
  std::optional<std::size_t> missing() const;

 private:
  enum class State : unsigned char { open, ours, held, done };

  std::vector<State> states_;
  std::size_t cursor_, done_ = 0, ours_ = 0, open_;
  TaskTime patience_, changed_;
};

}  // namespace dtrain::data
