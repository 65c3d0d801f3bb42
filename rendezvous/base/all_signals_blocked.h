#pragma once
// Signals are the agent's event loop's business: a thread that is started while one of these lives blocks them all.
#include <pthread.h>

#include <csignal>

namespace dtrain {

// For the life of this object, also when a thread cannot be made.
struct AllSignalsBlocked {
  AllSignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
  }
  ~AllSignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before, nullptr); }
  AllSignalsBlocked(const AllSignalsBlocked&) = delete;
  AllSignalsBlocked& operator=(const AllSignalsBlocked&) = delete;

  sigset_t before{};
};

}  // namespace dtrain
