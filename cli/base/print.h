#pragma once
// How a command shows its answer.
#include <string>

#include "rendezvous/base/result.h"

namespace dtrain::cli {

// Writes it to standard output; returns the exit code. A text that did not reach its reader is a failure, which is said
// on stderr: `dtrain help > /dev/full`.
int print(const std::string& text);

// The same for help, which has colours on a terminal.
int print_help(const std::string& text);
int print_help(const Result<std::string>& text);

// One line on stderr, or several of a terminal. It may have words of others in it: what would steer a terminal is
// shown, not sent.
void say(const std::string& text);

// The same as print(), or fail() with the error.
int print(const Result<std::string>& text);

}  // namespace dtrain::cli
