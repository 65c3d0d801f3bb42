#pragma once
// The rows of one epoch as they come and go: reads row groups, writes their rows to slots of an arena, and says which
// slots' rows come next.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "data/base/host_batch.h"
#include "data/base/row_layout.h"
#include "data/flow/row_arena.h"
#include "data/order/order_state.h"
#include "data/order/shuffle_buffer.h"
#include "data/parquet/parquet_set.h"

namespace dtrain::data {

// What is read, and as what.
struct LoaderParts {
  ParquetSet* set;
  const std::vector<TensorColumns>* tensors;
  const RowLayout* layout;
  std::int64_t rows;
  std::size_t tail_bytes;               // RowArena's
  BlockAllocator allocate = new_block;  // for batches

  RowOrder order(const OrderState& at) const { return {set->group_rows(), at.seed, at.epoch, at.window}; }
};

class RowFlow {
 public:
  // Begins after the rows that `at` has done. What the parts are and the arena must outlive the flow.
  RowFlow(const LoaderParts& parts, const OrderState& at, RowArena& arena);

  // Makes leaving() the next rows of the order; there may be none. False: `stop` became true. Throws DataError. Not to
  // be called again after either of the two.
  // After each row group that it reads it calls `after_group`, if that is one.
  bool advance(const std::atomic<bool>& stop, const std::function<void()>& after_group = {});
  const std::vector<std::uint32_t>& leaving() const { return leaving_; }
  // These slots' rows have been read.
  void release(std::span<const std::uint32_t> slots) {
    arena_->drop(slots);
    for (const std::uint32_t slot : slots) buffer_.release(slot);
  }

  // Seconds of reading groups since the last call: of the files alone, and with decoding.
  struct Seconds {
    double disk = 0, read = 0;
  };
  Seconds take_seconds() { return std::exchange(seconds_, {}); }

 private:
  void enter_block();

  const ParquetSet* set_;
  const RowOrder order_;
  ShuffleBuffer buffer_;
  RowArena* arena_;
  std::size_t turn_;  // of the order, from which the next row comes
  std::unique_ptr<DecodedGroup> group_;
  Seconds seconds_;
  std::vector<std::uint32_t> entering_, leaving_;
};

}  // namespace dtrain::data
