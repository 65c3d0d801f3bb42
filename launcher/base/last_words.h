#pragma once
// What dtrain says on its way out, when nothing may hold it up any more.
#include <string>

namespace dtrain::launcher {

// Write "dtrain: <text>\n" to stderr, but only if it takes bytes now: a pipe that nobody reads or a stopped terminal
// must not keep a process that is cleaning up. For what is said where no OutputRouter runs any more.
void say_unless_stuck(const std::string& text);

}  // namespace dtrain::launcher
