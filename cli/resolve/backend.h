#pragma once
// The backend that the nodes of a job have where the user names none.
#include "cli/options/options.h"
#include "cli/parse/parse.h"

namespace dtrain::cli {

// For where the user can only mean one way to meet (as_they_come(), nodes.h). Before all parts of resolve().
void choose_backend(const RawOptions& raw, Options& options);

}  // namespace dtrain::cli
