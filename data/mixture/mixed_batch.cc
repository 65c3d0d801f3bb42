#include "data/mixture/mixed_batch.h"

#include <cstring>
#include <utility>

namespace dtrain::data {

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
      batch_.tensors.push_back({tensors[i].columns[0].type, {0}, nullptr});
      if (tensors[i].texts()) {
        ragged_.emplace_back(static_cast<std::size_t>(share.rows));
        batch_.tensors.push_back({ElementType::int64, {0}, nullptr});
      }
      ragged_.emplace_back();
      batch_.tensors.push_back(int64_tensor(share.rows + 1, allocate));
    } else {
      ragged_.emplace_back();
      batch_.tensors.push_back(fixed_tensor(tensors[i], layout.tensors[i].bytes, share.rows, allocate));
    }
  }
  batch_.tensors.push_back(int64_tensor(share.rows, allocate));
}

void MixedBatch::add(HostBatch rows, std::span<const std::int64_t> places, std::span<const std::size_t> tensor_at,
                     std::int64_t source) {
  std::size_t at = 0;  // of batch_.tensors
  for (std::size_t i = 0; i < tensors_->size(); ++i) {
    const TensorColumns& of = (*tensors_)[i];
    const HostTensor& from = rows.tensors[tensor_at[at]];
    if (of.texts()) {
      add_texts(rows, tensor_at, places, at);
    } else if (of.ragged()) {
      add_ragged(from, int64_values(rows.tensors[tensor_at[at + 1]]), places, ragged_[at]);
    } else {
      add_fixed(from, layout_->tensors[i].bytes, places, batch_.tensors[at]);
    }
    at += of.tensors();
  }
  for (const std::int64_t place : places) int64_values(batch_.tensors.back())[place] = source;
  if (!layout_->ragged.empty()) added_.push_back(std::move(rows));
}

void MixedBatch::add_fixed(const HostTensor& from, std::size_t bytes, std::span<const std::int64_t> places,
                           HostTensor& to) {
  for (std::size_t row = 0; row < places.size(); ++row) {
    std::memcpy(to.values.get() + static_cast<std::size_t>(places[row]) * bytes, from.values.get() + row * bytes,
                bytes);
  }
}

void MixedBatch::add_ragged(const HostTensor& from, const std::int64_t* offsets, std::span<const std::int64_t> places,
                            RaggedRows& to) {
  const std::size_t size = element_bytes(from.type);
  for (std::size_t row = 0; row < places.size(); ++row) {
    const auto begin = static_cast<std::size_t>(offsets[row]), end = static_cast<std::size_t>(offsets[row + 1]);
    to[static_cast<std::size_t>(places[row])] = {from.values.get() + begin * size, (end - begin) * size};
  }
}

void MixedBatch::add_texts(const HostBatch& rows, std::span<const std::size_t> tensor_at,
                           std::span<const std::int64_t> places, std::size_t at) {
  const HostTensor &bytes = rows.tensors[tensor_at[at]], &offsets = rows.tensors[tensor_at[at + 1]];
  const std::int64_t* of_rows = int64_values(rows.tensors[tensor_at[at + 2]]);
  add_ragged(offsets, of_rows, places, ragged_[at + 1]);
  std::vector<std::int64_t> bytes_of_rows;
  for (std::size_t row = 0; row <= places.size(); ++row) bytes_of_rows.push_back(int64_values(offsets)[of_rows[row]]);
  add_ragged(bytes, bytes_of_rows.data(), places, ragged_[at]);
}

// Where each row's values begin. Returns where the last row's end.
std::int64_t MixedBatch::finish_ends(const RaggedRows& rows, std::size_t size, HostTensor& to) {
  std::int64_t* end = int64_values(to);
  *end = 0;
  for (const RaggedRow& row : rows) {
    end[1] = end[0] + static_cast<std::int64_t>(row.bytes / size);
    ++end;
  }
  return *end;
}

void MixedBatch::finish_values(const RaggedRows& rows, HostTensor& to) {
  std::size_t bytes = 0;
  for (const RaggedRow& row : rows) bytes += row.bytes;
  to.shape = {static_cast<std::int64_t>(bytes / element_bytes(to.type))};
  to.values = (*allocate_)(bytes);
  std::byte* at = to.values.get();
  for (const RaggedRow& row : rows) {
    if (row.bytes != 0) std::memcpy(at, row.values, row.bytes);
    at += row.bytes;
  }
}

// Each row has the offsets of its source's batch.
void MixedBatch::finish_offsets(const RaggedRows& rows, std::int64_t texts, HostTensor& to) {
  to = int64_tensor(texts + 1, *allocate_);
  std::int64_t* end = int64_values(to);
  *end = 0;
  for (const RaggedRow& row : rows) {
    const auto* from = reinterpret_cast<const std::int64_t*>(row.values);
    for (std::size_t text = 0; text < row.bytes / sizeof *from; ++text, ++end) {
      end[1] = end[0] + from[text + 1] - from[text];
    }
  }
}

HostBatch MixedBatch::finish() {
  std::size_t at = 0;  // of batch_.tensors
  for (const TensorColumns& of : *tensors_) {
    HostTensor* to = batch_.tensors.data() + at;
    if (of.ragged()) finish_values(ragged_[at], to[0]);
    if (of.texts()) {
      const std::int64_t texts = finish_ends(ragged_[at + 1], sizeof(std::int64_t), to[2]);
      finish_offsets(ragged_[at + 1], texts, to[1]);
    } else if (of.ragged()) {
      finish_ends(ragged_[at], element_bytes(to[0].type), to[1]);
    }
    at += of.tensors();
  }
  added_.clear();
  return std::move(batch_);
}

}  // namespace dtrain::data
