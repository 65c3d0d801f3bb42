#pragma once
// How options that make no sense are refused.
#include <fmt/format.h>

#include <string>

#include "data/base/one_line.h"
#include "dtrain/errors.h"

namespace dtrain::data {

// `who` has these options: a loader's name, or where they come from. One line, whatever is in it.
[[noreturn]] inline void refuse_option(const std::string& who, const std::string& why) {
  throw ConfigError(one_line(fmt::format("dtrain: {}: {}", who, why)));
}

}  // namespace dtrain::data
