#pragma once
// How far several processes are that share the work (task_folder.h). Pure.
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/process/progress.h"

namespace dtrain::data {

// What is done in one go, and by how many parts.
struct Phase {
  std::string name;  // of its folder
  int pass = 0;
  const char* doing = "";
  std::size_t parts = 0;
};
// The results that are there, or nothing: no process has begun the phase.
using ResultsOf = std::function<std::optional<std::size_t>(const std::string& phase)>;

// Where others are with these phases. They go from one to the next, so those before the last one seen are not looked at
// again.
class PhaseWatch {
 public:
  PhaseWatch(std::vector<Phase> phases, int passes) : phases_(std::move(phases)), passes_(passes) {}
  // Nothing: the first phase has not begun.
  std::optional<Progress> look(const ResultsOf& results);

 private:
  const std::vector<Phase> phases_;
  const int passes_;
  std::size_t at_ = 0;
};

}  // namespace dtrain::data
