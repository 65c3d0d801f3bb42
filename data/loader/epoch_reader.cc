#include "data/loader/epoch_reader.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include "data/loader/batch_builder.h"
#include "data/parquet/seconds_since.h"

namespace dtrain::data {
namespace {

using Clock = std::chrono::steady_clock;

std::size_t turn_of(const RowOrder& order, std::int64_t row) {
  const auto& turns = order.turns();
  const auto after =
      std::upper_bound(turns.begin(), turns.end(), row,
                       [](std::int64_t value, const RowOrder::Turn& turn) { return value < turn.first; });
  return static_cast<std::size_t>(std::max<std::ptrdiff_t>(after - turns.begin() - 1, 0));
}

}  // namespace

EpochReader::EpochReader(const ParquetSet& set, const std::vector<TensorColumns>& tensors, const RowLayout& layout,
                         RowOrder order, std::int64_t position)
    : set_(&set),
      tensors_(&tensors),
      layout_(&layout),
      order_(std::move(order)),
      buffer_(order_, position),
      arena_(layout, static_cast<std::size_t>(ShuffleBuffer::expected_slots(order_))),
      turn_(turn_of(order_, buffer_.next_row())) {}

std::optional<HostBatch> EpochReader::next(const BatchShare& share, const std::atomic<bool>& stop, LoaderTimes& times) {
  const Clock::time_point begin = Clock::now();
  disk_ = read_ = 0;
  std::optional<HostBatch> batch = filled(share, stop);
  times.disk += disk_;
  times.decode += read_ - disk_;
  times.copy += seconds_since(begin) - read_;
  return batch;
}

std::optional<HostBatch> EpochReader::filled(const BatchShare& share, const std::atomic<bool>& stop) {
  BatchBuilder batch(*tensors_, *layout_, share);
  for (std::int64_t row = 0; row < share.batch_rows;) {
    if (left_ == leaving_.size() && !advance(stop)) return std::nullopt;
    const auto count = std::min(leaving_.size() - left_, static_cast<std::size_t>(share.batch_rows - row));
    const auto slots = std::span<const std::uint32_t>(leaving_).subspan(left_, count);
    batch.add(arena_, slots, row);
    arena_.drop_tails(slots);
    for (const std::uint32_t slot : slots) buffer_.release(slot);
    left_ += count;
    row += static_cast<std::int64_t>(count);
  }
  return batch.finish();
}

// The next bucket leaves, once its last row has entered.
bool EpochReader::advance(const std::atomic<bool>& stop) {
  while (buffer_.next_row() < buffer_.due()) {
    if (!group_) {
      const Clock::time_point begin = Clock::now();
      group_ = set_->read(static_cast<std::size_t>(order_.turns()[turn_].group), stop);
      if (!group_) return false;
      read_ += seconds_since(begin);
      disk_ += group_->disk_seconds;
    }
    enter_block();
  }
  buffer_.emit(leaving_);
  left_ = 0;
  return !stop;
}

void EpochReader::enter_block() {
  const RowOrder::Turn& turn = order_.turns()[turn_];
  const std::int64_t first = buffer_.next_row(), end = std::min(buffer_.due(), turn.first + turn.rows);
  buffer_.enter(std::min(end - first, RowArena::block_rows), entering_);
  arena_.grow(buffer_.slots());
  arena_.write(group_->columns, first - turn.first, entering_);
  if (buffer_.next_row() == turn.first + turn.rows) {
    group_.reset();
    ++turn_;
  }
}

}  // namespace dtrain::data
