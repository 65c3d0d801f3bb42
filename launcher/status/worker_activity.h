#pragma once
// Whether a worker stands still, for `dtrain status`. Nothing looks at a worker until somebody asks, so what is known
// is what has changed since its start or since it was asked about last. Pure.
#include <chrono>
#include <string>

#include "rendezvous/base/clock.h"

namespace dtrain::launcher {

class WorkerActivity {
 public:
  WorkerActivity() = default;
  // It began at `started`, with no CPU time used.
  explicit WorkerActivity(MonoTime started) : busy_at_(started) {}

  // It has used `cpu` in all by `now`. Returns for how long it has used nearly none: less than 1 % of that time, as a
  // process that only waits, and looks again now and then, does.
  std::chrono::milliseconds idle(std::chrono::milliseconds cpu, MonoTime now);

 private:
  MonoTime busy_at_{};
  std::chrono::milliseconds cpu_{};  // used by then
};

inline constexpr std::chrono::seconds kStandsStill{5};

// One or two words, and how long, for a worker that has not ended. `state`: the letter in /proc/PID/stat, 0 if unknown.
// `idle`: for so long it has used no CPU, and written nothing.
std::string activity(char state, std::chrono::milliseconds idle);

}  // namespace dtrain::launcher
