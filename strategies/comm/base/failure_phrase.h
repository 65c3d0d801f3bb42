#pragma once
// What a rank did that made others fail, in a few words: for error lines, and for the launcher. Pure.
#include "dtrain/errors.h"

namespace dtrain {

// "left the job".
const char* short_phrase(FailureKind kind);

}  // namespace dtrain
