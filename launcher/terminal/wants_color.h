#pragma once
// Whether lines on a descriptor get colours, and how. Tested by test/process/launcher/console_test.py.
#include <string>
#include <string_view>

#include "launcher/job/job_spec.h"

namespace dtrain::launcher {

// Color::automatic: on a terminal, unless the environment speaks against it (https://no-color.org, TERM=dumb).
bool wants_color(Color color, int fd);

// The text in a colour: "1;31" is a bold red (ECMA-48, SGR). Pure.
std::string colored(std::string_view color, std::string_view text);

}  // namespace dtrain::launcher
