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
  using RaggedRows = std::vector<RaggedRow>;  // by place
  void add_fixed(const HostTensor& from, std::size_t bytes, std::span<const std::int64_t> places, HostTensor& to);
  static void add_ragged(const HostTensor& from, const std::int64_t* offsets, std::span<const std::int64_t> places,
                         RaggedRows& to);
  void add_texts(const HostBatch& rows, std::span<const std::size_t> tensor_at, std::span<const std::int64_t> places,
                 std::size_t at);
  static std::int64_t finish_ends(const RaggedRows& rows, std::size_t size, HostTensor& to);
  void finish_values(const RaggedRows& rows, HostTensor& to);
  void finish_offsets(const RaggedRows& rows, std::int64_t texts, HostTensor& to);

  const std::vector<TensorColumns>* tensors_;
  const RowLayout* layout_;
  const BatchShare share_;
  const BlockAllocator* allocate_;
  HostBatch batch_;  // a ragged column's tensors are empty until the end
  // For each of batch_'s tensors, if it has a ragged column's values. For the offsets of lists of strings: a row's, in
  // its source's batch, without the end of the last string.
  std::vector<RaggedRows> ragged_;
  std::vector<HostBatch> added_;  // what ragged_ points into
};

}  // namespace dtrain::data
