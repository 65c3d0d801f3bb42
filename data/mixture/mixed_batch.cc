#include "data/mixture/mixed_batch.h"

#include <cstring>
#include <utility>

namespace dtrain::data {
namespace {

std::int64_t* numbers(const HostTensor& tensor) { return reinterpret_cast<std::int64_t*>(tensor.values.get()); }

HostTensor empty_tensor(const TensorColumns& of, std::size_t row_bytes, std::int64_t rows,
                        const BlockAllocator& allocate) {
  HostTensor tensor{of.columns[0].type, {rows}, allocate(row_bytes * static_cast<std::size_t>(rows))};
  if (of.matrix) tensor.shape.push_back(static_cast<std::int64_t>(of.columns.size()));
  if (of.columns[0].list_size != 0) tensor.shape.push_back(of.columns[0].list_size);
  return tensor;
}

HostTensor int64_tensor(std::int64_t size, const BlockAllocator& allocate) {
  return {ElementType::int64, {size}, allocate(static_cast<std::size_t>(size) * sizeof(std::int64_t))};
}

}  // namespace

MixedBatch::MixedBatch(const std::vector<TensorColumns>& tensors, const RowLayout& layout, const BatchShare& share,
                       const BlockAllocator& allocate)
    : tensors_(&tensors),
      layout_(&layout),
      share_(share),
      allocate_(&allocate),
      batch_{{}, share.rows, share.repeated, share.batch_rows} {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].ragged()) {
      ragged_.emplace_back(static_cast<std::size_t>(share.rows));
      ragged_.emplace_back();
      batch_.tensors.push_back({tensors[i].columns[0].type, {0}, nullptr});
      batch_.tensors.push_back(int64_tensor(share.rows + 1, allocate));
    } else {
      ragged_.emplace_back();
      batch_.tensors.push_back(empty_tensor(tensors[i], layout.tensors[i].bytes, share.rows, allocate));
    }
  }
  batch_.tensors.push_back(int64_tensor(share.rows, allocate));
}

void MixedBatch::add(HostBatch rows, std::span<const std::int64_t> places, std::span<const std::size_t> tensor_at,
                     std::int64_t source) {
  std::size_t at = 0;  // of batch_.tensors
  for (std::size_t i = 0; i < tensors_->size(); ++i, ++at) {
    const HostTensor& from = rows.tensors[tensor_at[at]];
    if (!(*tensors_)[i].ragged()) {
      add_fixed(from, layout_->tensors[i].bytes, places, batch_.tensors[at]);
      continue;
    }
    const std::size_t size = element_bytes(from.type);
    const std::int64_t* offsets = numbers(rows.tensors[tensor_at[at + 1]]);
    for (std::size_t row = 0; row < places.size(); ++row) {
      const auto begin = static_cast<std::size_t>(offsets[row]), end = static_cast<std::size_t>(offsets[row + 1]);
      ragged_[at][static_cast<std::size_t>(places[row])] = {from.values.get() + begin * size, (end - begin) * size};
    }
    ++at;
  }
  for (const std::int64_t place : places) numbers(batch_.tensors.back())[place] = source;
  if (!layout_->ragged.empty()) added_.push_back(std::move(rows));
}

void MixedBatch::add_fixed(const HostTensor& from, std::size_t bytes, std::span<const std::int64_t> places,
                           HostTensor& to) {
  for (std::size_t row = 0; row < places.size(); ++row) {
    std::memcpy(to.values.get() + static_cast<std::size_t>(places[row]) * bytes, from.values.get() + row * bytes,
                bytes);
  }
}

void MixedBatch::finish_ragged(std::size_t tensor) {
  HostTensor& values = batch_.tensors[tensor];
  const std::size_t size = element_bytes(values.type);
  std::int64_t* ends = numbers(batch_.tensors[tensor + 1]);
  std::size_t bytes = 0;
  *ends = 0;
  for (const RaggedRow& row : ragged_[tensor]) {
    bytes += row.bytes;
    *++ends = static_cast<std::int64_t>(bytes / size);
  }
  values.shape = {*ends};
  values.values = (*allocate_)(bytes);
  std::byte* to = values.values.get();
  for (const RaggedRow& row : ragged_[tensor]) {
    if (row.bytes != 0) std::memcpy(to, row.values, row.bytes);
    to += row.bytes;
  }
}

HostBatch MixedBatch::finish() {
  for (std::size_t i = 0; i < ragged_.size(); ++i) {
    if (!batch_.tensors[i].values) finish_ragged(i);
  }
  added_.clear();
  return std::move(batch_);
}

}  // namespace dtrain::data
