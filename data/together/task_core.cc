#include "data/together/task_core.h"

#include <algorithm>

namespace dtrain::data {

TaskCore::TaskCore(std::size_t count, std::size_t first, TaskTime patience, TaskTime now)
    : states_(count, State::open),
      cursor_(count == 0 ? 0 : first % count),
      open_(count),
      patience_(patience),
      changed_(now) {}

TaskStep TaskCore::next(TaskTime now) {
  if (done_ == states_.size()) return {TaskStep::What::finished};
  if (open_ == 0) return {ours_ == 0 && now - changed_ > patience_ ? TaskStep::What::late : TaskStep::What::look};
  while (states_[cursor_] != State::open) cursor_ = (cursor_ + 1) % states_.size();
  states_[cursor_] = State::ours;
  --open_;
  ++ours_;
  return {TaskStep::What::take, cursor_};
}

void TaskCore::held(std::size_t task) {
  if (states_[task] != State::ours) return;  // its result has been seen meanwhile
  states_[task] = State::held;
  --ours_;
}

void TaskCore::done(std::size_t task, TaskTime now) {
  State& state = states_[task];
  if (state == State::done) return;
  open_ -= state == State::open ? 1 : 0;
  ours_ -= state == State::ours ? 1 : 0;
  state = State::done;
  ++done_;
  changed_ = now;
}

void TaskCore::alive(TaskTime now) { changed_ = now; }

void TaskCore::looked() {
  for (State& state : states_) {
    if (state != State::held) continue;
    state = State::open;
    ++open_;
  }
}

std::optional<std::size_t> TaskCore::missing() const {
  const auto found = std::find_if(states_.begin(), states_.end(), [](State state) { return state != State::done; });
  if (found == states_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - states_.begin());
}

}  // namespace dtrain::data
