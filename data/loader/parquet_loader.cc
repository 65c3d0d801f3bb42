// The thread that reads ahead, and what next() makes of it; see include/dtrain/parquet_loader.h.
#include "dtrain/parquet_loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <numeric>
#include <thread>
#include <utility>

#include "data/loader/epoch_reader.h"
#include "data/loader/loader_plan.h"
#include "data/loader/ready_queue.h"
#include "data/order/order_state.h"
#include "strategies/kept/available_memory.h"

namespace dtrain {
namespace {

using data::OrderState;
using data::RowOrder;

at::ScalarType scalar_type(data::ElementType type) {
  switch (type) {
    case data::ElementType::boolean:
      return at::kBool;
    case data::ElementType::uint8:
      return at::kByte;
    case data::ElementType::int8:
      return at::kChar;
    case data::ElementType::int16:
      return at::kShort;
    case data::ElementType::int32:
      return at::kInt;
    case data::ElementType::int64:
      return at::kLong;
    case data::ElementType::float16:
      return at::kHalf;
    case data::ElementType::float32:
      return at::kFloat;
    default:
      return at::kDouble;
  }
}

torch::Tensor empty_tensor(const data::TensorColumns& of, std::int64_t rows) {
  std::vector<std::int64_t> sizes{rows};
  if (of.matrix) sizes.push_back(static_cast<std::int64_t>(of.columns.size()));
  if (of.columns[0].list_size != 0) sizes.push_back(of.columns[0].list_size);
  return at::empty(sizes, scalar_type(of.columns[0].type));
}

[[noreturn]] void refuse(const std::string& why) { throw ConfigError("dtrain: ParquetLoader: " + why); }

ParquetLoaderOptions checked(ParquetLoaderOptions options) {
  if (options.paths.empty()) refuse("paths is empty; name files, or folders with files that end in .parquet");
  if (options.batch_size < 1) refuse(fmt::format("batch_size is {}; it must be at least 1", options.batch_size));
  if (options.world_size < 1 || options.rank < 0 || options.rank >= options.world_size) {
    refuse(fmt::format("rank {} of {} does not exist", options.rank, options.world_size));
  }
  if (options.prefetch < 1) refuse(fmt::format("prefetch is {}; it must be at least 1", options.prefetch));
  if (options.window_size_bytes < ParquetLoaderOptions::auto_window) {
    refuse(fmt::format("window_size_bytes is {}; it must be a number of bytes, 0 for all rows, or auto_window",
                       options.window_size_bytes));
  }
  if (options.window_size_bytes == ParquetLoaderOptions::auto_window && options.world_size > 1) {
    refuse(
        "auto_window is for one rank alone: the window must be the same on all ranks, and free memory is not; set "
        "window_size_bytes to a number");
  }
  return options;
}

std::int64_t window_bytes(const ParquetLoaderOptions& options) {
  if (options.window_size_bytes != ParquetLoaderOptions::auto_window) return options.window_size_bytes;
  const auto free = kept::available_memory();
  if (!free)
    refuse("auto_window: this machine does not say how much memory is free; set window_size_bytes to a number");
  return static_cast<std::int64_t>(*free / 5);
}

}  // namespace

class ParquetLoader::Impl {
 public:
  explicit Impl(ParquetLoaderOptions given)
      : options_(checked(std::move(given))),
        set_(options_.paths, data::wanted_columns(options_.columns, options_.matrices)),
        tensors_(data::tensors_of(set_.columns(), options_.matrices)),
        layout_(tensors_),
        rows_(std::accumulate(set_.group_rows().begin(), set_.group_rows().end(), std::int64_t{0})) {
    if (rows_ == 0) throw DataError(fmt::format("dtrain: {}: there are no rows", options_.paths[0]));
    if (batches() == 0) {
      refuse(
          fmt::format("the files have {} rows, less than one global batch of {}, and drop_last leaves them out; set "
                      "drop_last to false or take a smaller batch_size",
                      rows_, global_rows()));
    }
    at_ = {.seed = options_.seed, .digest = set_.digest()};
    if (options_.shuffle) at_.window = window();
  }
  ~Impl() { stop(); }

  std::optional<LoadedBatch> next() {
    if (failed_) std::rethrow_exception(failed_);
    if (!thread_.joinable()) start();
    Ready ready = ready_->pop();
    if (ready.error) {
      failed_ = ready.error;
      std::rethrow_exception(failed_);
    }
    at_ = ready.after;
    return std::move(ready.batch);
  }

  const OrderState& at() const { return at_; }

  void go_to(const OrderState& state) {
    stop();
    failed_ = nullptr;
    at_ = state;
  }

  void load(const std::string& text) {
    const auto state = data::order_state(text);
    if (!state) refuse(fmt::format("'{}' is no text of state()", text.substr(0, 100)));
    if (state->digest != at_.digest || state->rows_done > rows_) {
      refuse(
          "the state is one of other files: their names, sizes or row groups differ; with other rows it cannot go on");
    }
    if (state->seed != at_.seed) {
      refuse(fmt::format("the state is one of seed {}, and this loader has {}; with another order it cannot go on",
                         state->seed, at_.seed));
    }
    const bool any_window = options_.shuffle && options_.window_size_bytes == ParquetLoaderOptions::auto_window;
    if (state->window != at_.window && !(any_window && state->window > 0)) {
      refuse(
          "the state is one of another window_size_bytes or shuffle, or of other columns; with another order it cannot "
          "go on");
    }
    go_to(*state);
  }

  std::int64_t rows() const { return rows_; }
  std::int64_t batches() const { return rows_ / global_rows() + (rows_ % global_rows() != 0 && !options_.drop_last); }

 private:
  struct Ready {
    std::optional<LoadedBatch> batch;  // none: the epoch is over
    OrderState after;
    std::exception_ptr error;
  };

  std::int64_t global_rows() const { return options_.batch_size * options_.world_size; }

  std::int64_t window() const {
    const auto& groups = set_.group_rows();
    const auto largest = static_cast<std::size_t>(std::max_element(groups.begin(), groups.end()) - groups.begin());
    return data::checked_window(window_bytes(options_), layout_.bytes, groups, set_.name_of(largest));
  }

  void start() {
    stopped_ = false;
    ready_ = std::make_unique<data::ReadyQueue<Ready>>(static_cast<std::size_t>(options_.prefetch));
    thread_ = std::thread([this, from = at_] {
      try {
        read_epochs(from);
      } catch (...) {
        ready_->push({std::nullopt, {}, std::current_exception()});
      }
    });
  }

  void stop() {
    if (!thread_.joinable()) return;
    stopped_ = true;
    ready_->close();
    thread_.join();
  }

  // On the thread, until it is stopped.
  void read_epochs(OrderState at) {
    for (; !stopped_; at.epoch += 1, at.rows_done = 0) {
      RowOrder order(set_.group_rows(), at.seed, at.epoch, at.window);
      data::EpochReader reader(set_, layout_, std::move(order), at.rows_done);
      while (const auto share = next_share(at.rows_done)) {
        LoadedBatch batch{{}, share->rows, share->repeated, share->batch_rows};
        std::vector<std::byte*> places;
        for (const data::TensorColumns& tensor : tensors_) {
          const auto& made = batch.tensors[tensor.name] = empty_tensor(tensor, share->rows);
          places.push_back(static_cast<std::byte*>(made.data_ptr()));
        }
        if (!reader.next(*share, places, stopped_)) return;
        at.rows_done += share->batch_rows;
        if (!ready_->push({std::move(batch), at, nullptr})) return;
      }
      OrderState after = at;
      after.epoch += 1;
      after.rows_done = 0;
      if (!ready_->push({std::nullopt, after, nullptr})) return;
    }
  }

  std::optional<data::BatchShare> next_share(std::int64_t done) const {
    const auto share =
        data::next_share(rows_ - done, options_.batch_size, options_.rank, options_.world_size, options_.drop_last);
    return share.batch_rows == 0 ? std::nullopt : std::optional(share);
  }

  const ParquetLoaderOptions options_;
  const data::ParquetSet set_;
  const std::vector<data::TensorColumns> tensors_;
  const data::RowLayout layout_;
  const std::int64_t rows_;
  OrderState at_;  // after the last batch that next() has returned
  std::exception_ptr failed_;
  std::unique_ptr<data::ReadyQueue<Ready>> ready_;
  std::atomic<bool> stopped_ = false;
  std::thread thread_;
};

ParquetLoader::ParquetLoader(ParquetLoaderOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
ParquetLoader::~ParquetLoader() = default;
ParquetLoader::ParquetLoader(ParquetLoader&&) noexcept = default;
ParquetLoader& ParquetLoader::operator=(ParquetLoader&&) noexcept = default;

std::optional<LoadedBatch> ParquetLoader::next() { return impl_->next(); }
std::uint64_t ParquetLoader::epoch() const { return impl_->at().epoch; }
std::string ParquetLoader::state() const { return data::to_text(impl_->at()); }
void ParquetLoader::load_state(const std::string& state) { impl_->load(state); }
std::int64_t ParquetLoader::rows() const { return impl_->rows(); }
std::int64_t ParquetLoader::batches() const { return impl_->batches(); }

void ParquetLoader::set_epoch(std::uint64_t epoch) {
  OrderState state = impl_->at();
  state.epoch = epoch;
  state.rows_done = 0;
  impl_->go_to(state);
}

}  // namespace dtrain
