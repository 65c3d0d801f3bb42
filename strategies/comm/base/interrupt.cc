#include "strategies/comm/base/interrupt.h"

#include <atomic>
#include <utility>

namespace dtrain {
namespace {

std::atomic<void (*)()> the_check{nullptr};
thread_local bool carrying_out = false;

}  // namespace

void set_interrupt_check(void (*check)()) { the_check = check; }

void (*interrupt_check())() { return the_check; }

CarryingOut::CarryingOut() : before_(std::exchange(carrying_out, true)) {}
CarryingOut::~CarryingOut() { carrying_out = before_; }

void check_interrupt() {
  if (!carrying_out) return;
  if (const auto check = the_check.load()) check();
}

}  // namespace dtrain
