#pragma once
// What a process has from whoever started it.
#include <string>
#include <vector>

#include "rendezvous/base/unique_fd.h"

namespace dtrain::launcher {

// Those of `signals` that our parent did not have us ignore: what nohup, or a shell's `&`, ignores stays ignored.
std::vector<int> not_ignored(const std::vector<int>& signals);

// A descriptor that is at its end from the start: /dev/null, or without a /dev a pipe that nobody writes to. Closed on
// exec. None, with errno, if no descriptor can be had.
UniqueFd empty_input();

// Open /dev/null (or the like of it) where a standard descriptor is closed: the next one that is opened would take its
// number, and get what is written there. main() calls it before all else.
void fill_standard_descriptors();

// The environment of this process as "NAME=value".
std::vector<std::string> own_environment();

}  // namespace dtrain::launcher
