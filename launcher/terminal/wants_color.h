#pragma once
// Whether lines on a descriptor get colours. Tested by test/process/launcher/console_test.py.
#include "launcher/job/job_spec.h"

namespace dtrain::launcher {

// Color::automatic: on a terminal, unless the environment speaks against it (https://no-color.org, TERM=dumb).
bool wants_color(Color color, int fd);

}  // namespace dtrain::launcher
