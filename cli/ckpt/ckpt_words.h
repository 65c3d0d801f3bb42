#pragma once
// What the user asked `dtrain ckpt` for. Pure.
#include <string>
#include <vector>

#include "cli/ckpt/ckpt_plan.h"

namespace dtrain::cli {

struct CkptAsked {
  enum class What { inspect, verify, consolidate, convert } what = What::inspect;
  std::string path;
  bool json = false;
  // consolidate and convert
  std::string folder;
  CkptRewrite rewrite{};
};

Result<CkptAsked> parse_ckpt(const std::vector<std::string>& words);

}  // namespace dtrain::cli
