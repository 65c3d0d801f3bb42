#pragma once
// What a child process writes into a pipe, and no longer than the caller waits.
#include <chrono>
#include <cstddef>
#include <string>

namespace dtrain::cli {

struct PipeText {
  std::string text;
  bool complete = false;  // the end of the pipe was seen in time
};

// Read until the pipe's end or until `deadline`, also if the writer never pauses. Of a longer text the first `longest`
// bytes are kept.
PipeText read_until(int fd, std::chrono::steady_clock::time_point deadline, std::size_t longest);

}  // namespace dtrain::cli
