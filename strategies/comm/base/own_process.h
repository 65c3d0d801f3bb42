#pragma once
// Which process this is.

namespace dtrain {

// What getpid() says, without the system call: each collective asks. A forked child gets its own.
int own_process();

// Its number in /proc: another one where a PID namespace was entered without mounting its /proc. 0: there is none.
int own_proc_pid();

}  // namespace dtrain
