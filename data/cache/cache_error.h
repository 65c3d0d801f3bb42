#pragma once
// Why the cache cannot do what it is asked.
#include <stdexcept>
#include <string>

namespace dtrain::data {

// what() is one line for the user, without a name before it; or empty, if that has been said.
// `code` is the exit code (docs/exit-codes.md).
struct CacheError : std::runtime_error {
  CacheError(int exit_code, const std::string& what) : std::runtime_error(what), code(exit_code) {}
  int code;
};

inline constexpr int kDamagedCode = 1;
inline constexpr int kUsageCode = 2;
inline constexpr int kLateCode = 124;
inline constexpr int kSystemCode = 125;

// A signal that asks this process to end. What it has begun is cleared away when this is caught.
struct Interrupted {
  int signal;
};

}  // namespace dtrain::data
