#pragma once
// `dtrain ckpt`: what is in a checkpoint, and whether it is intact.
#include <string>
#include <vector>

namespace dtrain::cli {

// Returns the exit code: 0, 1 if a checkpoint is damaged, 2 if the words or the path are wrong.
int ckpt_command(const std::vector<std::string>& words);

}  // namespace dtrain::cli
