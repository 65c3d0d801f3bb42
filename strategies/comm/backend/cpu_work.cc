// See shm_work.h.
#include "strategies/comm/shm_work.h"

#include "strategies/comm/interrupt.h"
#include "strategies/comm/shm_wait.h"

namespace dtrain {
namespace {

constexpr std::chrono::milliseconds kInterruptCheck{100};

}  // namespace

void ShmWork::complete(const std::exception_ptr& error, const std::function<void()>& before_callbacks) {
  c10::intrusive_ptr<c10::ivalue::Future> future;
  {
    const std::lock_guard lock(future_mutex_);
    done_ = true;
    error_ = error;
    future = future_;
  }
  if (future) {
    before_callbacks();
    settle(*future);
  }
  finish(error);
}

void ShmWork::settle(c10::ivalue::Future& future) const {
  if (error_) {
    future.setErrorIfNeeded(error_);
  } else {
    future.markCompleted(c10::IValue(results_));
  }
}

c10::intrusive_ptr<c10::ivalue::Future> ShmWork::getFuture() {
  const std::lock_guard lock(future_mutex_);
  if (!future_) {
    future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::ofTensors());
    if (done_) settle(*future_);
  }
  return future_;
}

bool ShmWork::isCompleted() {
  const std::lock_guard lock(future_mutex_);
  return done_;
}

bool ShmWork::isSuccess() const { return !exception(); }

std::exception_ptr ShmWork::exception() const {
  const std::lock_guard lock(future_mutex_);
  return error_;
}

bool ShmWork::wait(std::chrono::milliseconds timeout) {
  if (help_ && !isCompleted()) help_();
  const auto check = interrupt_check();
  if (!check || isCompleted()) return Work::wait(timeout);
  const bool limited = timeout != kNoTimeout;
  const auto deadline = ShmWait::after(limited ? timeout : kLongestTimeout);
  while (!completed_until(std::min(deadline, ShmWait::after(kInterruptCheck)))) {
    check();
    if (std::chrono::steady_clock::now() >= deadline) break;
  }
  return Work::wait(limited ? std::chrono::milliseconds{1} : kNoTimeout);
}

bool ShmWork::completed_until(std::chrono::steady_clock::time_point moment) {
  std::unique_lock lock(mutex_);
  return cv_.wait_until(lock, moment, [this] { return completed_; });
}

}  // namespace dtrain
