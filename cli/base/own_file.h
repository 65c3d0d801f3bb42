#pragma once
// Where this dtrain is.
#include <filesystem>
#include <system_error>

#include "rendezvous/base/result.h"

namespace dtrain::cli {

inline Result<std::filesystem::path> own_file() {
  std::error_code error;
  std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return system_error("cannot find out where this dtrain is", error.value());
  return self;
}

}  // namespace dtrain::cli
