#pragma once
// The rows of one epoch in their order, from a position on: reads row groups, lets rows wait, copies them out.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "data/base/host_batch.h"
#include "data/base/row_layout.h"
#include "data/loader/row_arena.h"
#include "data/order/batch_share.h"
#include "data/order/shuffle_buffer.h"
#include "data/parquet/parquet_set.h"
#include "dtrain/loader_times.h"

namespace dtrain::data {

class EpochReader {
 public:
  // All but the order must outlive the reader.
  EpochReader(const ParquetSet& set, const std::vector<TensorColumns>& tensors, const RowLayout& layout, RowOrder order,
              std::int64_t position);

  // This rank's share of the next share.batch_rows rows. Nothing if `stop` became true. Throws DataError. Not to be
  // called again after either of the two.
  // Adds to disk, decode and copy of `times`.
  std::optional<HostBatch> next(const BatchShare& share, const std::atomic<bool>& stop, LoaderTimes& times);

 private:
  std::optional<HostBatch> filled(const BatchShare& share, const std::atomic<bool>& stop);
  bool advance(const std::atomic<bool>& stop);
  void enter_block();

  const ParquetSet* set_;
  const std::vector<TensorColumns>* tensors_;
  const RowLayout* layout_;
  const RowOrder order_;
  ShuffleBuffer buffer_;
  RowArena arena_;
  std::size_t turn_;  // of the order, from which the next row comes
  std::unique_ptr<DecodedGroup> group_;
  double disk_ = 0, read_ = 0;  // seconds of reading groups: of the files alone, and with decoding
  std::vector<std::uint32_t> entering_, leaving_;
  std::size_t left_ = 0;  // of leaving_
};

}  // namespace dtrain::data
