#include "data/mixture/source_reader.h"

#include <fmt/format.h>

#include <utility>

#include "data/mixture/mixture_plan.h"
#include "data/order/order_state.h"
#include "data/order/row_order.h"

namespace dtrain::data {
namespace {

// Epoch e of the mixture begins with epoch e of each source. Those that the source needs in addition have numbers that
// no epoch of the mixture has.
constexpr int again_bits = 32;

}  // namespace

SourceReader::SourceReader(SourceFiles& source, const MixtureThread& thread)
    : source_(&source),
      thread_(&thread),
      parts_(source.files().parts()),
      // A window of all rows reads all files before the first row anyhow.
      reads_through_(thread.reads_through && source.window() != RowOrder::whole_set) {}

void SourceReader::go_to(std::uint64_t epoch, std::int64_t taken) {
  if (epoch != epoch_ || taken != taken_) rows_.reset();
  drop_ended();
  epoch_ = epoch;
  taken_ = taken;
}

OrderState SourceReader::at() const {
  const auto again = static_cast<std::uint64_t>(taken_ / source_->rows());
  return {.epoch = epoch_ + (again << again_bits),
          .rows_done = taken_ % source_->rows(),
          .seed = source_->seed(),
          .window = source_->window(),
          .digest = source_->files().set().digest()};
}

void SourceReader::drop_ended() {
  std::erase_if(readers_, [](const auto& reader) { return reader->has_ended(); });
}

void SourceReader::begin(JoinTime& time) {
  if (!rows_) open(time);
}

void SourceReader::read_through() {
  if (std::exchange(reads_through_, false)) source_->files().set().read_through(thread_->stop.flag());
}

void SourceReader::open(JoinTime& time) {
  drop_ended();
  std::optional<NodePlan> plan;
  claim_.reset();
  if (thread_->job && thread_->ranks != 1) {
    claim_.emplace(fmt::format("{}\n{}\n{}", thread_->from, to_text(at()), source_->files().rows_text()));
    plan = NodePlan{.who = fmt::format("{}: source '{}'", mixture_name, source_->name()),
                    .job = *thread_->job,
                    .rows = claim_->name(),
                    .ranks = thread_->ranks.value_or(thread_->job->local_ranks),
                    .read_through = std::exchange(reads_through_, false),
                    .epoch_step = std::uint64_t{1} << again_bits,
                    .limits = thread_->limits};
  } else {
    read_through();
  }
  std::unique_ptr<NodeReader> reader;
  rows_ = std::make_unique<BatchSource>(parts_, at(), plan, time, thread_->stop, thread_->asks, reader);
  if (reader) readers_.push_back(std::move(reader));
}

std::optional<HostBatch> SourceReader::next(std::int64_t count, bool is_own, LoaderTimes& times) {
  if (!rows_) {
    JoinTime time = JoinTime::from_now(thread_->limits);
    open(time);
  }
  const std::int64_t own = is_own ? count : 0;
  std::optional<HostBatch> batch = rows_->next(at(), {.batch_rows = count, .first = 0, .rows = own}, times);
  if (const auto ranks = rows_->ranks()) thread_->ranks = ranks;
  taken_ += count;
  return batch;
}

}  // namespace dtrain::data
