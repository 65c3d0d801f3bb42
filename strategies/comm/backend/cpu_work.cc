// See cpu_work.h.
#include "strategies/comm/backend/cpu_work.h"

#include "strategies/comm/base/interrupt.h"
#include "strategies/comm/memory/shm_wait.h"

namespace dtrain {
namespace {

constexpr std::chrono::milliseconds kInterruptCheck{100};

}  // namespace

void CpuWork::complete(const std::exception_ptr& error, const std::function<void()>& before_callbacks) {
  c10::intrusive_ptr<c10::ivalue::Future> future;
  {
    const std::lock_guard lock(future_mutex_);
    done_ = true;
    if (begun_) took_ = Clock::now() - *begun_;
    error_ = error;
    future = future_;
  }
  if (future) {
    before_callbacks();
    settle(*future);
  }
  finish(error);
}

void CpuWork::begin_timed() {
  const std::lock_guard lock(future_mutex_);
  begun_ = Clock::now();
}

float CpuWork::getDuration() const {
  const std::lock_guard lock(future_mutex_);
  TORCH_CHECK(took_,
              "dtrain: the time of an operation is known only after it has ended, and only if "
              "enableCollectivesTiming() was called before it");
  return std::chrono::duration<float, std::milli>(*took_).count();
}

void CpuWork::settle(c10::ivalue::Future& future) const {
  if (error_) {
    future.setErrorIfNeeded(error_);
  } else {
    future.markCompleted(c10::IValue(results_));
  }
}

c10::intrusive_ptr<c10::ivalue::Future> CpuWork::getFuture() {
  const std::lock_guard lock(future_mutex_);
  if (!future_) {
    future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::ofTensors());
    if (done_) settle(*future_);
  }
  return future_;
}

bool CpuWork::isCompleted() {
  const std::lock_guard lock(future_mutex_);
  return done_;
}

bool CpuWork::isSuccess() const { return !exception(); }

std::exception_ptr CpuWork::exception() const {
  const std::lock_guard lock(future_mutex_);
  return error_;
}

bool CpuWork::wait(std::chrono::milliseconds timeout) {
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

bool CpuWork::completed_until(std::chrono::steady_clock::time_point moment) {
  std::unique_lock lock(mutex_);
  return cv_.wait_until(lock, moment, [this] { return completed_; });
}

}  // namespace dtrain
