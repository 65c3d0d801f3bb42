#pragma once
// The error of a user who typed something that cannot be (exit code 2).
#include <string>
#include <utility>

#include "rendezvous/base/result.h"

namespace dtrain::cli {

inline Error usage_error(std::string message) { return {ErrorKind::usage, std::move(message)}; }

}  // namespace dtrain::cli
