#pragma once
// A rank's batch of a mixture, put together from batches of its sources.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/base/host_batch.h"
#include "data/base/row_layout.h"
#include "data/order/batch_share.h"

namespace dtrain::data {

// The tensor that says which source each row comes from: int64 [rows].
inline constexpr const char* source_tensor = "mixture.source";

class MixedBatch {
 public:
  // All must outlive the object.
  MixedBatch(const std::vector<TensorColumns>& tensors, const RowLayout& layout, const BatchShare& share,
             const BlockAllocator& allocate);

  // Row i of `rows` goes to places[i]. `tensor_at`: which tensor of `rows` each of this batch's is; the last one of
  // this batch, source_tensor, becomes `source` there.
  void add(HostBatch rows, std::span<const std::int64_t> places, std::span<const std::size_t> tensor_at,
           std::int64_t source);
  // When each place has its row. Not to be called again.
  HostBatch finish();

 private:
  struct RaggedRow {
    const std::byte* values;
    std::size_t bytes;
  };
  void add_fixed(const HostTensor& from, std::size_t bytes, std::span<const std::int64_t> places, HostTensor& to);
  void finish_ragged(std::size_t tensor);

  const std::vector<TensorColumns>* tensors_;
  const RowLayout* layout_;
  const BatchShare share_;
  const BlockAllocator* allocate_;
  HostBatch batch_;  // a ragged column's tensors are empty until the end
  std::vector<std::vector<RaggedRow>>
      ragged_;                    // for each of batch_'s tensors: by place, if it has a ragged column's values
  std::vector<HostBatch> added_;  // what ragged_ points into
};

}  // namespace dtrain::data
