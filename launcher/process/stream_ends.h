#pragma once
// Where a worker writes its standard output and error.
#include "rendezvous/base/unique_fd.h"

namespace dtrain::launcher {

struct StreamEnds {
  UniqueFd out;
  UniqueFd err;
};

}  // namespace dtrain::launcher
