#pragma once
// The Work of CpuBackend.
#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "strategies/torch/compat.h"

namespace dtrain {

class CpuWork final : public c10d::Work {
 public:
  using Clock = std::chrono::steady_clock;

  // `number`: which of the group's operations it is, for people; `timeout` is what it was called with.
  CpuWork(int rank, c10d::OpType type, std::vector<at::Tensor> results, std::uint64_t number,
          std::chrono::milliseconds timeout)
      : Work(rank, type), results_(std::move(results)), number_(number), timeout_(timeout) {}

  // The operation begins now, and its time counts. At most once, before complete().
  void begin_timed();

  // Once. If somebody has asked for the future, `before_callbacks` runs first: code may hang on it that takes long.
  void complete(const std::exception_ptr& error, const std::function<void()>& before_callbacks);

  // Before others have the Work: what wait() does first, and at once, to bring the end nearer.
  void set_help(std::function<void()> help) { help_ = std::move(help); }

  // As Work::wait, but what the interrupt check throws ends it.
  bool wait(std::chrono::milliseconds timeout) override;
  // Carries the results; the Reducer takes them from there. Made when first asked for.
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  std::vector<at::Tensor> result() override { return results_; }
  // As the future says, which may be a moment before wait() does.
  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  // Of a message, once complete; refused as by other Works where there is none.
  int sourceRank() const override { return source_ < 0 ? Work::sourceRank() : source_.load(); }
  void set_source(int rank) { source_ = rank; }
  // Milliseconds from its beginning to its end, which waiting for its turn is not part of. Refused where it was not
  // timed or is not over.
  float getDuration() const override;
  std::uint64_t getSequencenumber() const override { return number_; }
  std::chrono::milliseconds getTimeout() const DTRAIN_OVERRIDE_2_15 { return timeout_; }

 private:
  bool completed_until(std::chrono::steady_clock::time_point moment);
  void settle(c10::ivalue::Future& future) const;

  const std::vector<at::Tensor> results_;
  const std::uint64_t number_;
  const std::chrono::milliseconds timeout_;
  std::function<void()> help_;
  mutable std::mutex future_mutex_;  // of what follows
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  std::atomic<int> source_{-1};
  bool done_ = false;
  std::optional<Clock::time_point> begun_;
  std::optional<Clock::duration> took_;
  std::exception_ptr error_;
};

}  // namespace dtrain
