#pragma once
// Whether training waits for data, and what to say then. Pure: its time is that of the batches.
#include <optional>
#include <string>

#include "dtrain/loader_times.h"

namespace dtrain::data {

class WaitWatch {
 public:
  // A window ends when it has as many batches and as many seconds as this.
  static constexpr std::int64_t window_batches = 100;
  static constexpr double window_seconds = 2;
  static constexpr double share_max = 0.1;      // of a window that may be waiting
  static constexpr double silent_seconds = 60;  // between two lines

  // `times`: since the batch before. Returns the window that has ended with this one, if training has waited for more
  // than share_max of it and a line may be written.
  std::optional<LoaderTimes> add(const LoaderTimes& times);

  // Since the begin.
  const LoaderTimes& all() const { return all_; }

 private:
  LoaderTimes all_, window_;
  double next_line_ = 0;  // in seconds of all_
};

// One line: how much training has waited, what the reading thread was busy with, and what to change.
// `who`: the loader's name.
std::string wait_line(const std::string& who, const LoaderTimes& window, int prefetch);

}  // namespace dtrain::data
