#pragma once
// The program's signals are for its own threads: a thread that is started while one of these lives blocks them all.
#include <pthread.h>

#include <csignal>

namespace dtrain {

// For the life of this object, also when a thread cannot be made.
struct SignalsBlocked {
  SignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

  sigset_t before{};
};

}  // namespace dtrain
