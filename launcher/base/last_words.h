#pragma once
// What dtrain says on its way out, when nothing may hold it up any more.
#include <exception>
#include <string>

namespace dtrain::launcher {

// Write "dtrain: <text>\n" to stderr, but only if it takes bytes now: a pipe that nobody reads or a stopped terminal
// must not keep a process that is cleaning up. For what is said where no OutputRouter runs any more.
void say_unless_stuck(const std::string& text);

// What it says, without the place in the source that Boost adds in brackets.
std::string reason_of(const std::exception& e);

// From now on an exception that nobody catches, in any thread, is told in one line before the process aborts: it is how
// Asio and the library say that memory, descriptors or threads ran out.
void tell_of_uncaught_exceptions();

}  // namespace dtrain::launcher
