#include "launcher/front/front_terminal.h"

#include <unistd.h>

#include <algorithm>

#include "launcher/process/sweep.h"

namespace dtrain::launcher {

namespace {

// Only a group of the job may have the terminal from the front. In the foreground there may be a shell, after `bg`.
bool is_of_job(pid_t group) {
  const auto all = descendants(::getpid());
  return group > 0 && std::any_of(all.begin(), all.end(), [&](pid_t p) { return ::getpgid(p) == group; });
}

}  // namespace

FrontTerminal::FrontTerminal(const AttachedTerminal* terminal) : terminal_(terminal) {
  if (is_lent()) first_modes_ = next_modes_ = terminal_->modes();
}

void FrontTerminal::keep_for(pid_t group) {
  if (!is_lent()) return;
  if (terminal_->foreground() == group)
    next_modes_ = terminal_->modes();
  else if (group != next_)
    next_modes_ = first_modes_;
  next_ = group;
}

void FrontTerminal::put_aside() {
  if (!is_lent()) return;
  if (const pid_t group = terminal_->foreground(); is_of_job(group)) keep_for(group);
  is_here_ = false;
}

void FrontTerminal::hand_on() {
  if (!is_lent()) return;
  const pid_t group = terminal_->foreground();
  const bool given = is_given_to_us();
  is_here_ = given || (group > 0 && group == next_);  // the latter: the job was not stopped after all
  if (given && is_of_job(next_) && terminal_->lend(next_)) terminal_->set_modes(next_modes_);
}

void FrontTerminal::take_back() const {
  if (is_lent()) terminal_->take_back();
}

int FrontTerminal::hangup_fd() const { return is_lent() && !hung_up_ ? AttachedTerminal::kDescriptor : -1; }

}  // namespace dtrain::launcher
