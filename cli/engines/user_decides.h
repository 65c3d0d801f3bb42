#pragma once
// Where the word of a scheduler or launcher ends.
#include "cli/options/options.h"

namespace dtrain::cli {

// The user says where the nodes meet, or that there is one: then nobody else's word counts. Pure.
bool user_decides(const Options& options);

}  // namespace dtrain::cli
