#pragma once
// Where a worker writes its standard output and error.
#include <optional>

#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain::launcher {

struct StreamEnds {
  UniqueFd out;
  UniqueFd err;
};

// One stream on its way from a worker to the agent.
struct StreamPipe {
  UniqueFd read_end;  // does not block
  UniqueFd write_end;
};

// Of a terminal, in characters; 0: not known.
struct WindowSize {
  unsigned short rows = 0;
  unsigned short columns = 0;
};

// The size of the terminal behind `fd`; nothing if there is none.
std::optional<WindowSize> window_size(int fd);

// Error: no descriptors left.
Result<StreamPipe> open_stream_pipe();
// A pipe whose write end is a terminal: isatty() is true there, and bytes pass through as they are. It is nobody's
// controlling terminal. Where the system has no terminal to give, the ordinary pipe.
Result<StreamPipe> open_stream_terminal(WindowSize window);

}  // namespace dtrain::launcher
