#pragma once
// For interpreters, whose signal handlers run only when asked: a check that threads call while they wait.

namespace dtrain {

// From now on a thread that waits for a Work calls this ten times a second; what it throws ends the wait and not the
// operation. A thread that carries out an operation itself calls it too, and there it ends the operation, for the whole
// group. Null: none. The check may be called by any thread.
void set_interrupt_check(void (*check)());
void (*interrupt_check())();

// While one lives, this thread carries out an operation for its caller.
class CarryingOut {
 public:
  CarryingOut();
  ~CarryingOut();
  CarryingOut(const CarryingOut&) = delete;
  CarryingOut& operator=(const CarryingOut&) = delete;

 private:
  const bool before_;  // they nest
};
// The check, if this thread does that.
void check_interrupt();

}  // namespace dtrain
