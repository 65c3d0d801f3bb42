#pragma once
// What a process has from whoever started it.
#include <vector>

namespace dtrain::launcher {

// Those of `signals` that our parent did not have us ignore: what nohup, or a shell's `&`, ignores stays ignored.
std::vector<int> not_ignored(const std::vector<int>& signals);

// Open /dev/null where a standard descriptor is closed: the next one that is opened would take its number, and get what
// is written there.
void fill_standard_descriptors();

}  // namespace dtrain::launcher
