#include "strategies/comm/interrupt.h"

#include <atomic>

namespace dtrain {
namespace {

std::atomic<void (*)()> the_check{nullptr};
thread_local bool carrying_out = false;

}  // namespace

void set_interrupt_check(void (*check)()) { the_check = check; }

void (*interrupt_check())() { return the_check; }

CarryingOut::CarryingOut() { carrying_out = true; }
CarryingOut::~CarryingOut() { carrying_out = false; }

void check_interrupt() {
  if (!carrying_out) return;
  if (const auto check = the_check.load()) check();
}

}  // namespace dtrain
