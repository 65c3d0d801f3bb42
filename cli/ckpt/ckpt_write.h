#pragma once
// Writes a checkpoint's model into a new folder.
#include <string>

#include "cli/ckpt/ckpt_plan.h"

namespace dtrain::cli {

struct CkptWritten {
  std::string damage;       // what is wrong with the source; empty: the folder is there
  std::uint64_t bytes = 0;  // of all files
};

// The folder appears when all of it is on the disk, under its final name. It must not exist, and the folder around it
// must. Memory for a few MiB is needed, whatever the size. Each tensor that has a sum is compared with it. After an
// error, damage or a signal nothing is left. Blocks signals that end the program while it works, and then lets them.
Result<CkptWritten> write_ckpt(const Ckpt& ckpt, const CkptPlan& plan, const std::string& folder);

}  // namespace dtrain::cli
