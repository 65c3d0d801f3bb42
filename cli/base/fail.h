#pragma once
// How a command of dtrain's own ends that could not do what was asked.
#include "rendezvous/base/result.h"

namespace dtrain::cli {

// Says it on stderr, on one line, or on several of a terminal; returns the exit code for errors of this kind.
int fail(const Error& error);

}  // namespace dtrain::cli
