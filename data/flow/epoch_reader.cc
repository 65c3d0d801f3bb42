#include "data/flow/epoch_reader.h"

#include <algorithm>
#include <chrono>
#include <span>

#include "data/flow/batch_builder.h"
#include "data/parquet/seconds_since.h"

namespace dtrain::data {

EpochReader::EpochReader(const LoaderParts& parts, const OrderState& at)
    : parts_(parts),
      arena_(*parts.layout, static_cast<std::size_t>(ShuffleBuffer::expected_slots(parts.order(at))), parts.tail_bytes),
      flow_(parts, at, arena_) {}

std::optional<HostBatch> EpochReader::next(const BatchShare& share, const std::atomic<bool>& stop, LoaderTimes& times) {
  const auto begin = std::chrono::steady_clock::now();
  std::optional<HostBatch> batch = filled(share, stop);
  const RowFlow::Seconds seconds = flow_.take_seconds();
  times.disk += seconds.disk;
  times.decode += seconds.read - seconds.disk;
  times.copy += seconds_since(begin) - seconds.read;
  return batch;
}

std::optional<HostBatch> EpochReader::filled(const BatchShare& share, const std::atomic<bool>& stop) {
  BatchBuilder batch(*parts_.tensors, *parts_.layout, share, parts_.allocate);
  for (std::int64_t row = 0; row < share.batch_rows;) {
    if (left_ == flow_.leaving().size()) {
      if (!flow_.advance(stop)) return std::nullopt;
      left_ = 0;
    }
    const auto count = std::min(flow_.leaving().size() - left_, static_cast<std::size_t>(share.batch_rows - row));
    const auto slots = std::span<const std::uint32_t>(flow_.leaving()).subspan(left_, count);
    batch.add(arena_, slots, row);
    flow_.release(slots);
    left_ += count;
    row += static_cast<std::int64_t>(count);
  }
  return batch.finish();
}

}  // namespace dtrain::data
