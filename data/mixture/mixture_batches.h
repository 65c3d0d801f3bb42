#pragma once
// MixtureLoader without torch: batches of plain memory. See include/dtrain/mixture_loader.h, which says what each
// member does.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/base/host_batch.h"
#include "data/loader/read_ahead.h"
#include "data/mixture/source_files.h"
#include "data/mixture/source_reader.h"
#include "data/node/node_job.h"
#include "data/order/batch_share.h"
#include "data/order/mixture_state.h"
#include "dtrain/loader_times.h"
#include "dtrain/mixture_options.h"

namespace dtrain::data {

class MixtureBatches {
 public:
  // `allocate`: where batches lie. pin_memory of the options has been its maker's. `limits`: the same on all ranks.
  explicit MixtureBatches(MixtureLoaderOptions options, BlockAllocator allocate = new_block,
                          const NodeLimits& limits = {});
  MixtureBatches(const MixtureBatches&) = delete;
  MixtureBatches& operator=(const MixtureBatches&) = delete;

  // The names of a batch's tensors. The last one is source_tensor.
  const std::vector<std::string>& names() const { return names_; }

  std::optional<HostBatch> next() { return ahead_.next(); }
  // Waits, but no longer than this, until next() does not. False: it still would.
  bool wait(std::chrono::milliseconds limit) { return ahead_.wait(limit); }

  std::uint64_t epoch() const { return ahead_.at().epoch; }
  void set_epoch(std::uint64_t epoch);
  // In the order of the sources.
  void set_weights(const std::vector<double>& weights);
  void set_weights(const std::map<std::string, double>& weights);
  std::string state() const { return to_text(ahead_.at()); }
  void load_state(const std::string& text);

  std::size_t sources() const { return sources_.size(); }
  const std::string& name(std::size_t source) const { return sources_[source]->name(); }
  std::int64_t rows(std::size_t source) const { return sources_[source]->rows(); }
  std::int64_t taken(std::size_t source) const { return ahead_.at().counts[source].taken; }
  double weight(std::size_t source) const {
    return static_cast<double>(ahead_.at().counts[source].weight) / static_cast<double>(MixtureOrder::whole_row);
  }
  const LoaderTimes& times() const { return ahead_.times(); }

 private:
  using Ahead = ReadAhead<MixtureState>;

  std::int64_t global_rows() const { return options_.batch_size * options_.world_size; }
  MixtureOrder order_from(const MixtureState& state) const;
  BatchShare share_of(std::int64_t rows) const;
  void check_first_batch(const MixtureState& state) const;
  using Readers = std::vector<std::unique_ptr<SourceReader>>;  // of each source

  void read_epochs(const MixtureState& from, Ahead::Output& output);
  void read_epochs(MixtureState at, Readers& readers, Ahead::Output& output);
  bool read_epoch(MixtureState& at, Readers& readers, Ahead::Output& output);
  std::optional<HostBatch> read(const std::vector<std::uint32_t>& rows, const BatchShare& share, Readers& readers,
                                LoaderTimes& times) const;

  const MixtureLoaderOptions options_;
  const BlockAllocator allocate_;
  const std::optional<NodeJob> job_;  // whose ranks read together
  const NodeLimits limits_;
  std::vector<std::unique_ptr<SourceFiles>> sources_;
  std::vector<std::vector<std::size_t>> tensors_at_;  // of each source: which tensor of its batches each of names_ is
  std::vector<std::int64_t> rows_;                    // of each source
  std::vector<std::string> names_;
  bool executed_ = false;          // the thread's: all files have been read once
  std::optional<int> node_ranks_;  // the thread's: how many ranks of the node have come before
  Ahead ahead_;                    // the last member: its thread uses the others
};

}  // namespace dtrain::data
