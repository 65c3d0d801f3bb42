#include "strategies/background/low_priority.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

namespace dtrain::background {

void take_lowest_priority() noexcept {
  const sched_param none{};
  ::sched_setscheduler(0, SCHED_BATCH, &none);  // of this thread; a real-time policy ends too
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), 19);
}

}  // namespace dtrain::background
