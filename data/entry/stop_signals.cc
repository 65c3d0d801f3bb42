// Tested by test/process/data/cache_test.py.
#include "data/entry/stop_signals.h"

#include <unistd.h>

#include <cerrno>

#include "data/cache/cache_error.h"

namespace dtrain::data {
namespace {

timespec as_timespec(std::chrono::milliseconds time) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time);
  return {seconds.count(), std::chrono::nanoseconds(time - seconds).count()};
}

}  // namespace

StopSignals::StopSignals() {
  ::sigemptyset(&waited_);
  for (const int each : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) {
    struct sigaction now = {};
    // Who starts it in the background may have these ignored, and means it.
    if (each != SIGCHLD && ::sigaction(each, nullptr, &now) == 0 && now.sa_handler == SIG_IGN) continue;
    ::sigaddset(&waited_, each);
  }
  ::signal(SIGCHLD, SIG_DFL);  // ignored, it would not come
  ::pthread_sigmask(SIG_BLOCK, &waited_, &before_);
}

StopSignals::~StopSignals() { restore(); }

void StopSignals::restore() const { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

StopSignals::Woke StopSignals::wait(std::chrono::milliseconds most) const {
  const timespec left = as_timespec(most);
  const int came = ::sigtimedwait(&waited_, nullptr, &left);
  if (came == SIGCHLD) return Woke::child;
  if (came > 0) throw Interrupted{came};
  return Woke::time;
}

void StopSignals::wait_for_child(std::chrono::milliseconds most) const {
  sigset_t child;
  ::sigemptyset(&child);
  ::sigaddset(&child, SIGCHLD);
  const timespec left = as_timespec(most);
  ::sigtimedwait(&child, nullptr, &left);
}

void end_by(int signal) {
  ::signal(signal, SIG_DFL);
  sigset_t one;
  ::sigemptyset(&one);
  ::sigaddset(&one, signal);
  ::pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
  ::raise(signal);
  ::_exit(128 + signal);
}

}  // namespace dtrain::data
