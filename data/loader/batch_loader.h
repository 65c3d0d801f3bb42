#pragma once
// ParquetLoader without torch: batches of plain memory, and the thread that reads ahead. See
// include/dtrain/parquet_loader.h, which says what each member does.
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "data/base/host_batch.h"
#include "data/base/row_layout.h"
#include "data/flow/row_flow.h"
#include "data/loader/batch_source.h"
#include "data/loader/ready_queue.h"
#include "data/node/descriptor.h"
#include "data/node/node_job.h"
#include "data/order/batch_share.h"
#include "data/order/order_state.h"
#include "data/parquet/parquet_set.h"
#include "data/times/wait_watch.h"
#include "dtrain/loader_times.h"
#include "dtrain/parquet_options.h"

namespace dtrain::data {

class BatchLoader {
  using Clock = std::chrono::steady_clock;

 public:
  explicit BatchLoader(ParquetLoaderOptions options);
  ~BatchLoader();
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  // The names of a batch's tensors.
  const std::vector<std::string>& names() const { return names_; }

  std::optional<HostBatch> next();
  // Waits, but no longer than this, until next() does not. False: it still would.
  bool wait(std::chrono::milliseconds limit);

  std::uint64_t epoch() const { return at_.epoch; }
  void set_epoch(std::uint64_t epoch);
  std::string state() const { return to_text(at_); }
  void load_state(const std::string& text);

  const LoaderTimes& times() const { return watch_.all(); }
  std::int64_t rows() const { return rows_; }
  std::int64_t batches() const { return rows_ / global_rows() + (rows_ % global_rows() != 0 && !options_.drop_last); }

 private:
  struct Ready {
    std::optional<HostBatch> batch;  // none: the epoch is over
    OrderState after;
    std::exception_ptr error;
    LoaderTimes times;  // of the thread, since what it gave before
  };

  std::int64_t global_rows() const { return options_.batch_size * options_.world_size; }
  std::int64_t window() const;
  void go_to(const OrderState& state);
  void start();
  void stop();
  void note_times(LoaderTimes times);
  std::optional<NodePlan> node_plan() const;
  void read_epochs(OrderState at);
  std::optional<BatchShare> next_share(std::int64_t done) const;

  const ParquetLoaderOptions options_;
  ParquetSet set_;
  const std::vector<TensorColumns> tensors_;
  const std::vector<std::string> names_;
  const RowLayout layout_;
  const std::int64_t rows_;
  const LoaderParts parts_;
  const std::optional<NodeJob> job_;  // whose ranks read together
  WaitWatch watch_;
  std::optional<Clock::time_point> returned_;  // when next() did that last; nothing: it has not since the thread began
  double waited_ = 0;                          // seconds, for the batch that comes next
  OrderState at_;                              // after the last batch that next() has returned
  std::exception_ptr failed_;
  std::unique_ptr<ReadyQueue<Ready>> ready_;
  std::unique_ptr<StopBell> stop_;  // of the thread
  bool executed_ = false;           // the thread's: all files have been read once
  std::optional<int> node_ranks_;   // the thread's: how many ranks of the node have come before
  std::thread thread_;
};

}  // namespace dtrain::data
