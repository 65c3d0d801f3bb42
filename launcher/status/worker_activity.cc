#include "launcher/status/worker_activity.h"

#include <fmt/format.h>

#include "launcher/base/readable.h"

namespace dtrain::launcher {

std::chrono::milliseconds WorkerActivity::idle(std::chrono::milliseconds cpu, MonoTime now) {
  const auto past = std::chrono::duration_cast<std::chrono::milliseconds>(now - busy_at_);
  if ((cpu - cpu_) * 100 > past) {
    busy_at_ = now;
    cpu_ = cpu;
    return {};
  }
  return past;
}

std::string activity(char state, std::chrono::milliseconds idle) {
  switch (state) {
    case 'T':
      return "stopped (T)";
    case 't':
      return "held by a debugger (t)";
    case 'D':
      return "disk wait (D)";
    default:
      break;
  }
  if (idle < kStandsStill) return "running";
  return fmt::format("idle {} (no CPU, no output)", readable_duration(idle));
}

}  // namespace dtrain::launcher
