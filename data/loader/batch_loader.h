#pragma once
// ParquetLoader without torch: batches of plain memory, and the thread that reads ahead. See
// include/dtrain/parquet_loader.h, which says what each member does.
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/base/host_batch.h"
#include "data/flow/row_flow.h"
#include "data/loader/loader_files.h"
#include "data/loader/node_member.h"
#include "data/loader/read_ahead.h"
#include "data/node/node_job.h"
#include "data/order/batch_share.h"
#include "data/order/order_state.h"
#include "dtrain/loader_times.h"
#include "dtrain/parquet_options.h"

namespace dtrain::data {

class BatchLoader {
 public:
  // `allocate`: where batches lie. pin_memory of the options has been its maker's. `limits`: the same on all ranks.
  explicit BatchLoader(ParquetLoaderOptions options, BlockAllocator allocate = new_block,
                       const NodeLimits& limits = {});
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  // The names of a batch's tensors.
  const std::vector<std::string>& names() const { return names_; }

  std::optional<HostBatch> next() { return ahead_.next(); }
  // Waits, but no longer than this, until next() does not. False: it still would.
  bool wait(std::chrono::milliseconds limit) { return ahead_.wait(limit); }

  std::uint64_t epoch() const { return ahead_.at().epoch; }
  void set_epoch(std::uint64_t epoch);
  std::string state() const { return to_text(ahead_.at()); }
  void load_state(const std::string& text);

  const LoaderTimes& times() const { return ahead_.times(); }
  std::int64_t rows() const { return files_.rows(); }
  std::int64_t batches() const { return rows() / global_rows() + (rows() % global_rows() != 0 && !options_.drop_last); }

 private:
  using Ahead = ReadAhead<OrderState>;

  std::int64_t global_rows() const { return options_.batch_size * options_.world_size; }
  std::optional<NodePlan> node_plan(const OrderState& from) const;
  void read_epochs(const OrderState& from, Ahead::Output& output);
  void read_epochs(OrderState at, Ahead::Output& output, const std::optional<NodePlan>& plan,
                   std::unique_ptr<NodeReader>& reader);
  std::optional<BatchShare> next_share(std::int64_t done) const;

  const ParquetLoaderOptions options_;
  LoaderFiles files_;
  const std::vector<std::string> names_;
  const LoaderParts parts_;
  const std::optional<NodeJob> job_;  // whose ranks read together
  const NodeLimits limits_;
  bool executed_ = false;          // the thread's: all files have been read once
  std::optional<int> node_ranks_;  // the thread's: how many ranks of the node have come before
  Ahead ahead_;                    // the last member: its thread uses the others
};

}  // namespace dtrain::data
