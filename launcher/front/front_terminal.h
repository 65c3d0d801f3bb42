#pragma once
// The terminal that an attached worker borrows (--attach), as the front looks after it: which process group gets the
// terminal next, with which modes, and whether the job has it at all. A job without an attached worker lends nothing:
// then the calls do nothing.
#include <sys/types.h>
#include <termios.h>

#include "launcher/process/attached_terminal.h"

namespace dtrain::launcher {

class FrontTerminal {
 public:
  // `terminal`: null without an attached worker.
  explicit FrontTerminal(const AttachedTerminal* terminal);

  bool is_lent() const { return terminal_ != nullptr; }
  // False: the job has an attached worker, and another job has the terminal.
  bool is_here() const { return is_here_; }
  // The shell has just given the terminal to the front's group.
  bool is_given_to_us() const { return is_lent() && terminal_->with_owner(); }
  bool is_with(pid_t group) const { return is_lent() && terminal_->foreground() == group; }

  // This group gets the terminal next, with the modes that it has set by now; with the first modes, if it never had it.
  void keep_for(pid_t group);
  // Before the job stops: keep the terminal for the group of the job that has it, since the shell takes it now.
  void put_aside();
  // After the job was continued: by `fg` the shell has given the terminal to the front, which hands it on. By `bg` the
  // terminal stays the shell's.
  void hand_on();
  void take_back() const;

  // The descriptor whose POLLHUP says that the terminal is gone; -1 without one, and after hung_up().
  int hangup_fd() const;
  void hung_up() { hung_up_ = true; }

 private:
  const AttachedTerminal* const terminal_;
  bool is_here_ = true;
  bool hung_up_ = false;
  pid_t next_ = 0;  // the group that gets the terminal next
  termios next_modes_{};
  termios first_modes_{};
};

}  // namespace dtrain::launcher
