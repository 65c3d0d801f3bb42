#pragma once
// What workers have left behind, named for the user.
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace dtrain::launcher {

struct LeftBehind {
  pid_t pid;
  std::string name;
  std::optional<int> rank;  // of the worker that started it, where its environment was asked and tells
};

// The living processes below `root`, the parent of those that workers have left.
std::vector<LeftBehind> left_below(pid_t root);
// The same with their ranks. To read the environment of a process that forks is to wait for it: a fork bomb makes that
// seconds, so not before a kill.
std::vector<LeftBehind> left_below_with_ranks(pid_t root);

// "rank 0 left 1 process behind (sleep pid 123): ending it"; empty if there is none. Pure.
std::string left_text(const std::vector<LeftBehind>& left);
// "2 processes that workers had started (sh pid 7, sleep pid 8) did not end in time: killing them"; likewise.
std::string too_late_text(const std::vector<LeftBehind>& left);

}  // namespace dtrain::launcher
