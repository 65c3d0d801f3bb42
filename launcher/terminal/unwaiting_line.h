#pragma once
// Lines of dtrain's own that never wait: a terminal that is stopped, or a pipe that nobody reads, must not keep jobs
// from their pings.
#include <string>

namespace dtrain::launcher {

// "dtrain: " and the text to stderr. A line that nobody takes now is left out; the next one says how many were. All of
// it on one thread.
void say_unwaiting(const std::string& line);

}  // namespace dtrain::launcher
