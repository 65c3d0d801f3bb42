#pragma once
// The end of a process that the user has interrupted.

namespace dtrain::launcher {

// A shell loop ends on Ctrl-C only if the program that was interrupted died of SIGINT. Returns if that is impossible
// (PID 1).
void die_of_interrupt();

}  // namespace dtrain::launcher
