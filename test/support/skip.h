#pragma once
#include <iostream>

// Leaves a test case that this machine cannot run. ctest lists the case as skipped, whatever failed before, so this
// stands before the first check that matters.
#define DTRAIN_SKIP(reason)                            \
  do {                                                 \
    std::cout << "skipped here: " << (reason) << '\n'; \
    return;                                            \
  } while (false)
