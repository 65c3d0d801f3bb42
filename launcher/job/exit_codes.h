#pragma once
// dtrain's own exit codes (docs/exit-codes.md). A failing worker's own code and 128 + signal come on top.

namespace dtrain::launcher {

inline constexpr int kExitUsage = 2;
inline constexpr int kExitUnavailable = 75;
inline constexpr int kExitTimeLimit = 124;
inline constexpr int kExitOwnFailure = 125;
inline constexpr int kExitNotExecutable = 126;
inline constexpr int kExitNotFound = 127;

}  // namespace dtrain::launcher
