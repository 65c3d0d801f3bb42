#pragma once
// The calling thread leaves its core to all others that want it.

namespace dtrain::background {

// SCHED_BATCH, so that it interrupts nobody when it wakes, and nice 19. Without privileges there is no way back to
// another niceness. A thread that may not do this works on as it is.
void take_lowest_priority() noexcept;

}  // namespace dtrain::background
