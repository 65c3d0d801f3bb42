#pragma once
// Which process this is.

namespace dtrain {

// What getpid() says, without the system call: each collective asks. A forked child gets its own.
int own_process();

}  // namespace dtrain
