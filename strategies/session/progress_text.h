#pragma once
// What report_progress() writes, and when. Pure.
#include <chrono>
#include <string>

#include "dtrain/progress.h"

namespace dtrain {

// A line of JSON. A number that JSON does not have (NaN, infinity) is null.
std::string progress_text(const Progress& progress);

class ProgressPace {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr auto kEvery = std::chrono::milliseconds(500);

  // Whether this progress is written now.
  bool due(const Progress& progress, Time now);

 private:
  Time next_{};
};

}  // namespace dtrain
