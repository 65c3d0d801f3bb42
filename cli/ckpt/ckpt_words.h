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

// "5GB", "300MiB" or "1000": bytes, 1 or more.
Result<std::uint64_t> parse_size(std::string_view text);

}  // namespace dtrain::cli
