#pragma once
// How far the work is, for a line on a terminal. Pure.
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace dtrain::data {

struct Progress {
  int pass = 0, passes = 1;  // over the rows; pass == passes while shuffled rows are written after the last one
  const char* doing = "";    // "gathering", "comparing", "transforming", "writing"
  std::size_t done = 0, all = 0;
};
// Called by one thread at a time, but not always by the same.
using ProgressSink = std::function<void(const Progress&)>;

// "gathering (pass 1 of 2): 50 % ". Empty: all of it is done.
std::string progress_text(const Progress& now);

// Of work that several processes share (task_folder.h): what is done in one go, and by how many parts.
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
