#pragma once
// A thread that reads batches ahead, and the program that takes them one by one. State says where a reader is: the
// state after each batch goes with it, so that what has been read ahead and not been taken does not count.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "data/base/host_batch.h"
#include "data/loader/ready_queue.h"
#include "data/node/stop_bell.h"
#include "data/parquet/seconds_since.h"
#include "data/times/wait_watch.h"
#include "dtrain/loader_times.h"

namespace dtrain::data {

template <typename State>
class ReadAhead {
  using Clock = std::chrono::steady_clock;
  struct Ready {
    std::optional<HostBatch> batch;  // none: the epoch is over
    State after;
    std::exception_ptr error;
    LoaderTimes times;  // of the thread, since what it gave before
  };

 public:
  // What the thread reads for.
  class Output {
   public:
    // Waits for room. Called before a batch is made: one that waits for room would be memory beyond `prefetch`. False:
    // the thread must end.
    bool await_room() {
      const Clock::time_point begin = Clock::now();
      const bool is_open = ready_->await_room();
      times.ahead += seconds_since(begin);
      return is_open;
    }
    // Waits for room, if there is none. False: the thread must end.
    bool give(std::optional<HostBatch> batch, const State& after) {
      // Where cores are short, the program that waited for this batch goes on at once: that is no time of reading.
      const Clock::time_point begin = Clock::now();
      const bool is_open = ready_->push({std::move(batch), after, nullptr, std::exchange(times, {})});
      times.ahead = seconds_since(begin);
      return is_open;
    }
    // This comes out of next(). Waits until the thread must end.
    void fail(std::exception_ptr error) {
      ready_->push({std::nullopt, {}, std::move(error), {}});
      while (stop_->pause(std::chrono::milliseconds(100))) continue;
    }
    // Rings when the thread must end.
    const StopBell& stop() const { return *stop_; }
    const std::atomic<bool>& stopped() const { return stop_->flag(); }
    // Whether the program waits for a batch.
    bool is_asked() const { return ready_->is_asked(); }

    LoaderTimes times = {};  // what the thread adds to: disk, decode and copy

   private:
    friend class ReadAhead;
    Output(ReadyQueue<Ready>& ready, const StopBell& stop) : ready_(&ready), stop_(&stop) {}

    ReadyQueue<Ready>* ready_;
    const StopBell* stop_;
  };
  // Gives batches from this state on, until the output is stopped. Its exception comes out of next().
  using Read = std::function<void(const State& from, Output& output)>;

  // `who`: the loader's name, for what is written to standard error.
  ReadAhead(std::string who, int prefetch, Read read)
      : who_(std::move(who)), prefetch_(prefetch), read_(std::move(read)) {}
  ~ReadAhead() { stop(); }
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // After the last batch that next() has returned.
  const State& at() const { return at_; }
  void go_to(State state) {
    stop();
    failed_ = nullptr;
    at_ = std::move(state);
  }

  // Nothing: the epoch is over.
  std::optional<HostBatch> next() {
    if (failed_) std::rethrow_exception(failed_);
    if (!thread_.joinable()) start();
    // What is ready is not waited for, however long the kernel lets another thread run meanwhile.
    const bool is_there = ready_->has_item();
    const Clock::time_point begin = Clock::now();
    Ready ready = ready_->pop();
    if (!is_there) waited_ += seconds_since(begin);
    if (ready.error) {
      failed_ = ready.error;
      std::rethrow_exception(failed_);
    }
    at_ = std::move(ready.after);
    ready.times.batches = ready.batch ? 1 : 0;
    note_times(ready.times);
    return std::move(ready.batch);
  }

  // Waits, but no longer than this, until next() does not. False: it still would.
  bool wait(std::chrono::milliseconds limit) {
    if (failed_) return true;
    if (!thread_.joinable()) start();
    if (ready_->has_item()) return true;
    const Clock::time_point begin = Clock::now();
    const bool is_there = ready_->wait(limit);
    waited_ += seconds_since(begin);
    return is_there;
  }

  const LoaderTimes& times() const { return watch_.all(); }

 private:
  // Before the first batch a program waits for the window to fill, and there is nothing to change.
  void note_times(LoaderTimes times) {
    const Clock::time_point now = Clock::now();
    const double waited = std::exchange(waited_, 0);
    const auto before = std::exchange(returned_, now);
    if (before) {
      times.seconds = std::chrono::duration<double>(now - *before).count();
      times.waited = waited;
    }
    // fmt::print() would throw if standard error is closed or full.
    if (const auto window = watch_.add(times)) std::fputs((wait_line(who_, *window, prefetch_) + "\n").c_str(), stderr);
  }

  void start() {
    stop_ = std::make_unique<StopBell>();
    returned_.reset();
    waited_ = 0;
    ready_ = std::make_unique<ReadyQueue<Ready>>(static_cast<std::size_t>(prefetch_));
    thread_ = std::thread([this, from = at_] {
      Output output(*ready_, *stop_);
      try {
        read_(from, output);
      } catch (...) {
        output.fail(std::current_exception());
      }
    });
  }

  void stop() {
    if (!thread_.joinable()) return;
    stop_->ring();
    ready_->close();
    thread_.join();
  }

  const std::string who_;
  const int prefetch_;
  const Read read_;
  WaitWatch watch_;
  std::optional<Clock::time_point> returned_;  // when next() did that last; nothing: it has not since the thread began
  double waited_ = 0;                          // seconds, for the batch that comes next
  State at_;
  std::exception_ptr failed_;
  std::unique_ptr<ReadyQueue<Ready>> ready_;
  std::unique_ptr<StopBell> stop_;  // of the thread
  std::thread thread_;
};

}  // namespace dtrain::data
