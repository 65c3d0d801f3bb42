#pragma once
// The tensors of one batch, filled with this rank's rows as they leave the shuffle.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "data/base/host_batch.h"
#include "data/base/row_layout.h"
#include "data/flow/row_arena.h"
#include "data/order/batch_share.h"

namespace dtrain::data {

class BatchBuilder {
 public:
  // All must outlive the builder.
  BatchBuilder(const std::vector<TensorColumns>& tensors, const RowLayout& layout, const BatchShare& share,
               const BlockAllocator& allocate);

  // Row `row` of the global batch and those after it, from these slots. Nothing of the arena is needed afterwards.
  void add(const RowArena& arena, std::span<const std::uint32_t> slots, std::int64_t row);
  // When all rows have been added. Not to be called again.
  HostBatch finish();

 private:
  // `ragged`: the number of a ragged column among these.
  std::span<const std::byte> bytes_of(std::size_t row, std::size_t ragged) const;
  HostTensor row_ends(std::size_t ragged) const;
  HostTensor joined_values(std::size_t ragged, ElementType type, std::int64_t count) const;
  void add_ragged(std::size_t ragged, ElementType type);
  void add_texts(std::size_t bytes, std::size_t lengths);

  const std::vector<TensorColumns>* tensors_;
  const RowLayout* layout_;
  const BatchShare share_;
  const BlockAllocator* allocate_;
  std::vector<HostTensor> fixed_;     // one of each of tensors_; of a ragged column it is empty
  std::vector<std::byte> tails_;      // of this rank's rows, as they came
  std::vector<std::size_t> tail_at_;  // where each row's is, if there are ragged columns
  HostBatch batch_;
};

}  // namespace dtrain::data
