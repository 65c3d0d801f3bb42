#include "data/flow/batch_builder.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace dtrain::data {
namespace {

HostTensor fixed_tensor(const TensorColumns& of, const Piece& piece, std::int64_t rows,
                        const BlockAllocator& allocate) {
  HostTensor tensor{of.columns[0].type, {rows}, allocate(piece.bytes * static_cast<std::size_t>(rows))};
  if (of.matrix) tensor.shape.push_back(static_cast<std::int64_t>(of.columns.size()));
  if (of.columns[0].list_size != 0) tensor.shape.push_back(of.columns[0].list_size);
  return tensor;
}

}  // namespace

BatchBuilder::BatchBuilder(const std::vector<TensorColumns>& tensors, const RowLayout& layout, const BatchShare& share,
                           const BlockAllocator& allocate)
    : tensors_(&tensors),
      layout_(&layout),
      share_(share),
      allocate_(&allocate),
      batch_{{}, share.rows, share.repeated, share.batch_rows} {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    fixed_.push_back(tensors[i].ragged() ? HostTensor{}
                                         : fixed_tensor(tensors[i], layout.tensors[i], share.rows, allocate));
  }
  if (!layout.ragged.empty()) tail_at_.resize(static_cast<std::size_t>(share.rows));
}

void BatchBuilder::add(const RowArena& arena, std::span<const std::uint32_t> slots, std::int64_t row) {
  const auto count = static_cast<std::int64_t>(slots.size());
  for (std::int64_t place = row - share_.lead(); place < share_.rows; place += share_.batch_rows) {
    const std::int64_t begin = std::max<std::int64_t>(0, -place), end = std::min(count, share_.rows - place);
    if (begin >= end) continue;
    const auto own = slots.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    const auto first = static_cast<std::size_t>(place + begin);
    for (std::size_t i = 0; i < fixed_.size(); ++i) {
      const Piece& piece = layout_->tensors[i];
      if (fixed_[i].values) arena.read(piece, own, fixed_[i].values.get() + first * piece.bytes);
    }
    // A row has one place at most: a rank never has more rows than the batch.
    for (std::size_t i = 0; i < own.size() && !tail_at_.empty(); ++i) {
      tail_at_[first + i] = tails_.size();
      arena.read_tail(own[i], tails_);
    }
  }
}

void BatchBuilder::add_ragged(std::size_t ragged, ElementType type) {
  const std::size_t size = layout_->element[ragged], rows = tail_at_.size();
  const auto bytes_of = [&](std::size_t row) {
    return TailHeap::bytes(tails_.data() + tail_at_[row], ragged, layout_->ragged.size());
  };
  HostTensor offsets{ElementType::int64, {share_.rows + 1}, (*allocate_)((rows + 1) * sizeof(std::int64_t))};
  auto* ends = reinterpret_cast<std::int64_t*>(offsets.values.get());
  ends[0] = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    ends[row + 1] = ends[row] + static_cast<std::int64_t>(bytes_of(row).size() / size);
  }
  HostTensor values{type, {ends[rows]}, (*allocate_)(static_cast<std::size_t>(ends[rows]) * size)};
  std::byte* to = values.values.get();
  for (std::size_t row = 0; row < rows; ++row) {
    const auto bytes = bytes_of(row);
    to = std::copy(bytes.begin(), bytes.end(), to);
  }
  batch_.tensors.push_back(std::move(values));
  batch_.tensors.push_back(std::move(offsets));
}

HostBatch BatchBuilder::finish() {
  std::size_t ragged = 0;
  for (std::size_t i = 0; i < fixed_.size(); ++i) {
    if (fixed_[i].values) {
      batch_.tensors.push_back(std::move(fixed_[i]));
    } else {
      add_ragged(ragged++, (*tensors_)[i].columns[0].type);
    }
  }
  return std::move(batch_);
}

}  // namespace dtrain::data
