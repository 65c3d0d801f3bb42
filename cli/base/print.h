#pragma once
// How a command shows its answer.
#include <string>

#include "rendezvous/base/result.h"

namespace dtrain::cli {

// Writes it to standard output; returns the exit code. A text that did not reach its reader is a failure, which is said
// on stderr: `dtrain help > /dev/full`.
int print(const std::string& text);

// One line on stderr. It may have words of others in it: what would steer a terminal is shown, not sent.
void say(const std::string& text);

// The same as print(), or fail() with the error.
int print(const Result<std::string>& text);

}  // namespace dtrain::cli
