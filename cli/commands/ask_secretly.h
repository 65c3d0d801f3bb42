#pragma once
// A line that only the user and dtrain see.
#include <string>

#include "rendezvous/base/result.h"

namespace dtrain::cli {

// One line of stdin. Where that is a terminal: asked for with `prompt` on stderr, and not shown while it is typed;
// Ctrl-C gives it up. The caller wipes it. Errors: nothing came, it is too long.
Result<void> ask_secretly(const std::string& prompt, std::string& line);

}  // namespace dtrain::cli
