#pragma once
// The terminal of the user's session, lent to one worker (--attach; docs/adr/0004-the-attached-worker.md). The worker
// is a process group of that session, in its foreground; when it has ended, the terminal goes back to the front's
// group, which the shell knows, with the modes it had at first. Front, agent and guard have a copy: any may be killed.
#include <sys/types.h>
#include <termios.h>

#include "launcher/process/spawn.h"
#include "launcher/process/stream_ends.h"
#include "rendezvous/base/result.h"

namespace dtrain::launcher {

// What standard input is to a process group of this session.
enum class TerminalUse {
  none,        // no terminal
  foreign,     // one that this session does not control
  background,  // the session's, but another job has it
  foreground,  // the group has it
};
TerminalUse standard_input_use(pid_t group);

class AttachedTerminal {
 public:
  static constexpr int kDescriptor = 0;

  // The terminal at that descriptor, with its present modes; its owner is the caller's process group.
  AttachedTerminal();

  // The group in its foreground; -1: there is none.
  pid_t foreground() const;
  bool with_owner() const { return foreground() == owner_; }

  // How a worker starts: with the terminal, unless the user has put the job into the background since.
  Session session() const { return with_owner() ? Session::foreground : Session::background; }

  // Put a group of this session in the foreground. False if there is no such group any more.
  bool lend(pid_t group) const;
  // Give the terminal back to its owner, with the first modes, unless another living group than `from` has it: a shell,
  // say, that has put the job into the background. True: the owner has it now.
  bool take_back(pid_t from = 0) const;

  termios modes() const;
  void set_modes(const termios& modes) const;
  void restore_modes() const { set_modes(first_modes_); }

  // Descriptors for standard output and error of the worker. Error: the terminal cannot be opened for writing.
  Result<StreamEnds> ends_for_worker() const;

 private:
  pid_t owner_;
  termios first_modes_{};
};

}  // namespace dtrain::launcher
