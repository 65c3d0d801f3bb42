#pragma once
// Signals that ask this process to end, and the end of its child, as things to wait for.
#include <signal.h>

#include <chrono>
#include <optional>

namespace dtrain::data {

// From here on they wait until wait() takes them. Make it while there is one thread, and once.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  enum class Woke { time, child };
  // Throws Interrupted.
  Woke wait(std::chrono::milliseconds most) const;
  // Until a child has ended. Signals that ask this process to end wait.
  void wait_for_child(std::chrono::milliseconds most) const;
  // As it was before, for a child.
  void restore() const;

 private:
  sigset_t waited_{};
  sigset_t before_{};
};

// Ends this process by the signal, so that a loop of a shell sees it.
[[noreturn]] void end_by(int signal);

}  // namespace dtrain::data
