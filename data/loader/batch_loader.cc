#include "data/loader/batch_loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <utility>

#include "data/loader/batch_source.h"
#include "data/loader/loader_plan.h"
#include "data/node/name_claim.h"
#include "data/options/refuse_option.h"

namespace dtrain::data {
namespace {

constexpr const char* loader_name = "ParquetLoader";

[[noreturn]] void refuse(const std::string& why) { refuse_option(loader_name, why); }

ParquetLoaderOptions checked(ParquetLoaderOptions options) {
  if (options.paths.empty()) refuse("paths is empty; name files, or folders with files that end in .parquet");
  check_ranks(loader_name, options.batch_size, options.rank, options.world_size, options.prefetch);
  if (options.window_size_bytes < ParquetLoaderOptions::auto_window) {
    refuse(fmt::format("window_size_bytes is {}; it must be a number of bytes, 0 for all rows, or auto_window",
                       options.window_size_bytes));
  }
  return options;
}

}  // namespace

BatchLoader::BatchLoader(ParquetLoaderOptions given, BlockAllocator allocate, const NodeLimits& limits)
    : options_(checked(std::move(given))),
      files_(loader_name, options_),
      names_(tensor_names(files_.tensors())),
      parts_(files_.parts(std::move(allocate))),
      job_(options_.one_reader && options_.world_size > 1 ? node_job() : std::nullopt),
      limits_(limits),
      ahead_(loader_name, options_.prefetch, [this](const auto& from, auto& to) { read_epochs(from, to); }) {
  if (options_.fully_executed && options_.window_size_bytes != 0 && files_.set().is_remote()) {
    refuse(
        "fully_executed is for files of this machine, which stay in its memory once they are read; those of an object "
        "store do not. Leave it out, or copy the files here");
  }
  if (batches() == 0) {
    refuse(
        fmt::format("the files have {} rows, less than one global batch of {}, and drop_last leaves them out; set "
                    "drop_last to false or take a smaller batch_size",
                    rows(), global_rows()));
  }
  OrderState begin{.seed = options_.seed, .digest = files_.set().digest()};
  if (options_.shuffle) begin.window = files_.window(options_.window_size_bytes);
  ahead_.go_to(begin);
}

void BatchLoader::set_epoch(std::uint64_t epoch) {
  OrderState state = ahead_.at();
  state.epoch = epoch;
  state.rows_done = 0;
  ahead_.go_to(state);
}

void BatchLoader::load_state(const std::string& text) {
  const auto state = order_state(text);
  const OrderState& now = ahead_.at();
  if (!state) refuse(fmt::format("'{}' is no text of state()", text.substr(0, 100)));
  if (state->digest != now.digest || state->rows_done > rows()) {
    refuse("the state is one of other files: their names, sizes or row groups differ; with other rows it cannot go on");
  }
  if (state->seed != now.seed) {
    refuse(fmt::format("the state is one of seed {}, and this loader has {}; with another order it cannot go on",
                       state->seed, now.seed));
  }
  // How many rows of strings or lists a window has depends on dtrain's version, too.
  const bool is_automatic = options_.window_size_bytes == ParquetLoaderOptions::auto_window;
  const bool is_ragged =
      options_.window_size_bytes != 0 && state->window != RowOrder::whole_set && !files_.layout().ragged.empty();
  const bool any_window = options_.shuffle && (is_automatic || is_ragged) && state->window > 0;
  if (state->window != now.window && !any_window) {
    refuse(
        "the state is one of another window_size_bytes or shuffle, or of other columns; with another order it cannot "
        "go on");
  }
  if (state->window != now.window && !is_automatic) {
    std::fputs(fmt::format("dtrain: {}: the state has a window of {} rows, and window_size_bytes gives {}; it goes on "
                           "with that of the state\n",
                           loader_name, state->window, now.window)
                   .c_str(),
               stderr);
  }
  ahead_.go_to(*state);
}

std::optional<NodePlan> BatchLoader::node_plan(const OrderState& from) const {
  if (!job_ || node_ranks_ == 1) return std::nullopt;
  return NodePlan{.who = loader_name,
                  .job = *job_,
                  .rows = to_text(from) + '\n' + files_.rows_text(),
                  .ranks = node_ranks_.value_or(job_->local_ranks),
                  .read_through = options_.fully_executed && options_.window_size_bytes != 0 && !executed_,
                  .limits = limits_};
}

// On the thread, until it is stopped. If this rank has the reader of its node, that works for the others until then,
// also if this one has failed.
void BatchLoader::read_epochs(const OrderState& from, Ahead::Output& output) {
  std::optional<NameClaim> claim;
  std::unique_ptr<NodeReader> reader;
  try {
    std::optional<NodePlan> plan = node_plan(from);
    if (plan) plan->rows = claim.emplace(plan->rows).name();
    read_epochs(from, output, plan, reader);
  } catch (...) {
    output.fail(std::current_exception());
  }
}

void BatchLoader::read_epochs(OrderState at, Ahead::Output& output, const std::optional<NodePlan>& plan,
                              std::unique_ptr<NodeReader>& reader) {
  const bool reads_through = options_.fully_executed && options_.window_size_bytes != 0 && !executed_;
  if (reads_through && !plan) files_.set().read_through(output.stopped());
  JoinTime time = JoinTime::from_now(limits_);
  BatchSource source(
      parts_, at, plan, time, output.stop(), [&output] { return output.is_asked(); }, reader);
  for (; !output.stopped(); at.epoch += 1, at.rows_done = 0) {
    while (const auto share = next_share(at.rows_done)) {
      if (!output.await_room()) return;
      std::optional<HostBatch> batch = source.next(at, *share, output.times);
      if (const auto ranks = source.ranks()) node_ranks_ = ranks;
      if (!batch) return;
      if (reader && reader->has_ended()) reader.reset();  // it broke: its memory is needed no more
      executed_ = true;                                   // before the first row
      at.rows_done += share->batch_rows;
      if (!output.give(std::move(batch), at)) return;
    }
    OrderState after = at;
    after.epoch += 1;
    after.rows_done = 0;
    if (!output.give(std::nullopt, after)) return;
  }
}

std::optional<BatchShare> BatchLoader::next_share(std::int64_t done) const {
  const auto share =
      data::next_share(rows() - done, options_.batch_size, options_.rank, options_.world_size, options_.drop_last);
  return share.batch_rows == 0 ? std::nullopt : std::optional(share);
}

}  // namespace dtrain::data
