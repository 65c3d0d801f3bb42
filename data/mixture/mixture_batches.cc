#include "data/mixture/mixture_batches.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "data/base/random_bits.h"
#include "data/mixture/mixed_batch.h"
#include "data/mixture/mixture_plan.h"
#include "data/order/mixture_share.h"

namespace dtrain::data {
namespace {

// A source's epoch that is not the first of an epoch of the mixture has a number above these.
constexpr std::uint64_t epoch_max = UINT32_MAX;

void begin_epoch(MixtureState& state, std::uint64_t epoch) {
  if (epoch > epoch_max) refuse_mixture(fmt::format("there is no epoch {}; the last one is {}", epoch, epoch_max));
  state.epoch = epoch;
  for (SourceCount& one : state.counts) one.behind = one.taken = 0;
}

}  // namespace

MixtureBatches::MixtureBatches(MixtureLoaderOptions given, BlockAllocator allocate, const NodeLimits& limits)
    : options_(checked(std::move(given))),
      allocate_(std::move(allocate)),
      job_(options_.one_reader && options_.world_size > 1 ? node_job() : std::nullopt),
      limits_(limits),
      ahead_("MixtureLoader", options_.prefetch, [this](const auto& from, auto& to) { read_epochs(from, to); }) {
  std::vector<double> weights;
  for (const MixtureSource& source : options_.sources) weights.push_back(source.weight);
  const std::vector<std::int64_t> parts = parts_of(weights);
  MixtureState begin{.orders = random_bits(options_.seed, 3)};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string& name = options_.sources[i].name;
    sources_.push_back(std::make_unique<SourceFiles>(source_options(options_, i), name));
    const SourceFiles& first = *sources_.front();
    tensors_at_.push_back(tensors_at(first.name(), first.tensors(), name, sources_.back()->tensors()));
    rows_.push_back(sources_.back()->rows());
    begin.files = mixed(begin.files + sources_.back()->files_digest());
    begin.orders = mixed(begin.orders + sources_.back()->order_digest());
    begin.counts.push_back({.weight = parts[i]});
  }
  names_ = tensor_names(sources_.front()->tensors());
  if (std::find(names_.begin(), names_.end(), source_tensor) != names_.end()) {
    refuse_mixture(fmt::format("a column is called '{}', as the tensor with the sources of the rows; leave it out",
                               source_tensor));
  }
  names_.emplace_back(source_tensor);
  check_first_batch(begin);
  ahead_.go_to(std::move(begin));
}

MixtureOrder MixtureBatches::order_from(const MixtureState& state) const {
  return {options_.seed, state.epoch, rows_, options_.epoch_ends, state.counts};
}

BatchShare MixtureBatches::share_of(std::int64_t rows) const {
  return next_share(rows, options_.batch_size, options_.rank, options_.world_size, options_.drop_last);
}

void MixtureBatches::check_first_batch(const MixtureState& state) const {
  const auto rows = static_cast<std::int64_t>(order_from(state).take(global_rows()).size());
  if (share_of(rows).batch_rows != 0) return;
  refuse_mixture(
      fmt::format("an epoch has {} rows with these weights, less than one global batch of {}, and drop_last leaves "
                  "them out; set drop_last to false or take a smaller batch_size",
                  rows, global_rows()));
}

void MixtureBatches::set_epoch(std::uint64_t epoch) {
  MixtureState state = ahead_.at();
  begin_epoch(state, epoch);
  ahead_.go_to(std::move(state));
}

void MixtureBatches::set_weights(const std::map<std::string, double>& weights) {
  set_weights(weights_of(options_, weights));
}

void MixtureBatches::set_weights(const std::vector<double>& weights) {
  if (weights.size() != sources_.size()) {
    refuse_mixture(fmt::format("set_weights: there are {} weights for {} sources", weights.size(), sources_.size()));
  }
  MixtureState state = ahead_.at();
  data::set_weights(state.counts, parts_of(weights));
  if (state == ahead_.at()) return;
  ahead_.go_to(std::move(state));
}

void MixtureBatches::load_state(const std::string& text) {
  auto state = mixture_state(text);
  if (!state || state->epoch > epoch_max)
    refuse_mixture(fmt::format("'{}' is no text of state()", text.substr(0, 100)));
  if (state->files != ahead_.at().files || state->counts.size() != sources_.size()) {
    refuse_mixture(
        "the state is one of other sources: their names, their number, or their files, sizes or row groups differ; "
        "with "
        "other rows it cannot go on");
  }
  if (state->orders != ahead_.at().orders) {
    refuse_mixture(
        "the state is one of another seed, window_size_bytes or shuffle, of other columns, or of an older dtrain whose "
        "windows had other numbers of rows with strings or lists; with another order it "
        "cannot go on");
  }
  ahead_.go_to(std::move(*state));
}

// On the thread, until it is stopped. If this rank has readers of its node, they work for the others until then, also
// if this one has failed.
void MixtureBatches::read_epochs(const MixtureState& from, Ahead::Output& output) {
  const MixtureThread thread{.stop = output.stop(),
                             .asks = [&output] { return output.is_asked(); },
                             .job = job_,
                             .limits = limits_,
                             .from = to_text(from),
                             .reads_through = options_.fully_executed && !executed_,
                             .ranks = node_ranks_};
  Readers readers;
  for (const auto& source : sources_) readers.push_back(std::make_unique<SourceReader>(*source, thread));
  try {
    read_epochs(from, readers, output);
  } catch (...) {
    output.fail(std::current_exception());
  }
}

void MixtureBatches::read_epochs(MixtureState at, Readers& readers, Ahead::Output& output) {
  while (!output.stopped() && read_epoch(at, readers, output)) {
    begin_epoch(at, at.epoch + 1);
    if (!output.give(std::nullopt, at)) return;
  }
}

// The rest of the epoch. False: the thread must end.
bool MixtureBatches::read_epoch(MixtureState& at, Readers& readers, Ahead::Output& output) {
  const auto is_new = [](const SourceCount& one) { return one.taken == 0; };
  if (std::all_of(at.counts.begin(), at.counts.end(), is_new)) check_first_batch(at);
  // First all leave the epoch before, so that its memory is free.
  for (std::size_t i = 0; i < readers.size(); ++i) readers[i]->go_to(at.epoch, at.counts[i].taken);
  JoinTime time = JoinTime::from_now(limits_);
  for (std::size_t i = 0; i < readers.size() && !output.stopped(); ++i) {
    if (at.counts[i].weight > 0) {
      readers[i]->begin(time);
    } else {
      readers[i]->read_through();
    }
  }
  MixtureOrder order = order_from(at);
  for (;;) {
    const std::vector<std::uint32_t> rows = order.take(global_rows());
    const BatchShare share = share_of(static_cast<std::int64_t>(rows.size()));
    if (share.batch_rows == 0) return true;
    if (!output.await_room()) return false;
    std::optional<HostBatch> batch = read(rows, share, readers, output.times);
    if (!batch) return false;
    executed_ = true;
    at.counts = order.counts();
    if (!output.give(std::move(batch), at)) return false;
  }
}

std::optional<HostBatch> MixtureBatches::read(const std::vector<std::uint32_t>& rows, const BatchShare& share,
                                              Readers& readers, LoaderTimes& times) const {
  const std::vector<SourceShare> shares = source_shares(rows, share, sources_.size());
  MixedBatch mixed(sources_.front()->tensors(), sources_.front()->layout(), share, allocate_);
  for (const auto& reader : readers) reader->drop_ended();
  for (std::size_t i = 0; i < readers.size(); ++i) {
    std::span<const std::int64_t> places = shares[i].places;
    for (SourceRun run : shares[i].runs) {
      while (run.rows > 0) {
        const std::int64_t count = std::min(run.rows, readers[i]->left_of_epoch());
        std::optional<HostBatch> part = readers[i]->next(count, run.is_own, times);
        if (!part) return std::nullopt;
        run.rows -= count;
        if (!run.is_own) continue;
        mixed.add(std::move(*part), places.first(static_cast<std::size_t>(count)), tensors_at_[i],
                  static_cast<std::int64_t>(i));
        places = places.subspan(static_cast<std::size_t>(count));
      }
    }
  }
  return mixed.finish();
}

}  // namespace dtrain::data
