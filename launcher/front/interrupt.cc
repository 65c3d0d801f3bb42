#include "launcher/front/interrupt.h"

#include <csignal>

namespace dtrain::launcher {

void die_of_interrupt() {
  sigset_t only;
  ::sigemptyset(&only);
  ::sigaddset(&only, SIGINT);
  ::signal(SIGINT, SIG_DFL);
  ::sigprocmask(SIG_UNBLOCK, &only, nullptr);
  ::raise(SIGINT);
}

}  // namespace dtrain::launcher
