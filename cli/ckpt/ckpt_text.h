#pragma once
// What `dtrain ckpt` prints. Pure.
#include <string>

#include "cli/ckpt/ckpt_files.h"

namespace dtrain::cli {

// Step, ranks, files, and a table of tensors.
std::string ckpt_text(const Ckpt& ckpt);
std::string ckpt_json(const Ckpt& ckpt);
// One line: what was read, or what is damaged.
std::string ckpt_verdict(const Ckpt& ckpt);

}  // namespace dtrain::cli
