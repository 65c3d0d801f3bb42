#pragma once
// One rank's batches of one epoch, from a position on: lets rows come and wait, and copies out those of the rank.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "data/base/host_batch.h"
#include "data/flow/row_arena.h"
#include "data/flow/row_flow.h"
#include "data/order/batch_share.h"
#include "data/order/order_state.h"
#include "dtrain/loader_times.h"

namespace dtrain::data {

class EpochReader {
 public:
  // Begins after the rows that `at` has done. What the parts are must outlive the reader.
  EpochReader(const LoaderParts& parts, const OrderState& at);

  // This rank's share of the next share.batch_rows rows. Nothing if `stop` became true. Throws DataError. Not to be
  // called again after either of the two.
  // Adds to disk, decode and copy of `times`.
  std::optional<HostBatch> next(const BatchShare& share, const std::atomic<bool>& stop, LoaderTimes& times);

 private:
  std::optional<HostBatch> filled(const BatchShare& share, const std::atomic<bool>& stop);

  const LoaderParts parts_;
  RowArena arena_;
  RowFlow flow_;
  std::size_t left_ = 0;  // of flow_.leaving()
};

}  // namespace dtrain::data
