#pragma once
// What `dtrain ckpt` prints. Pure.
#include <string>

#include "cli/ckpt/ckpt_plan.h"

namespace dtrain::cli {

// Step, ranks, files, and a table of tensors.
std::string ckpt_text(const Ckpt& ckpt);
std::string ckpt_json(const Ckpt& ckpt);
// One line: what was read, or what is damaged.
std::string ckpt_verdict(const Ckpt& ckpt);
// One line: what was written, and whether sums were compared on the way.
std::string ckpt_written_text(const Ckpt& ckpt, const CkptPlan& plan, const std::string& folder, std::uint64_t bytes);

}  // namespace dtrain::cli
