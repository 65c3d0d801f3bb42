#include "data/flow/batch_builder.h"

#include <algorithm>
#include <utility>

namespace dtrain::data {

BatchBuilder::BatchBuilder(const std::vector<TensorColumns>& tensors, const RowLayout& layout, const BatchShare& share,
                           const BlockAllocator& allocate)
    : tensors_(&tensors),
      layout_(&layout),
      share_(share),
      allocate_(&allocate),
      batch_{{}, share.rows, share.repeated, share.batch_rows} {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    fixed_.push_back(tensors[i].ragged() ? HostTensor{}
                                         : fixed_tensor(tensors[i], layout.tensors[i].bytes, share.rows, allocate));
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

std::span<const std::byte> BatchBuilder::bytes_of(std::size_t row, std::size_t ragged) const {
  return TailHeap::bytes(tails_.data() + tail_at_[row], ragged, layout_->ragged.size());
}

// Where each row's values begin, and where the last row's end.
HostTensor BatchBuilder::row_ends(std::size_t ragged) const {
  HostTensor tensor = int64_tensor(share_.rows + 1, *allocate_);
  std::int64_t* ends = int64_values(tensor);
  ends[0] = 0;
  for (std::size_t row = 0; row < tail_at_.size(); ++row) {
    ends[row + 1] = ends[row] + static_cast<std::int64_t>(bytes_of(row, ragged).size() / layout_->element[ragged]);
  }
  return tensor;
}

// Of all rows, of which there are so many.
HostTensor BatchBuilder::joined_values(std::size_t ragged, ElementType type, std::int64_t count) const {
  HostTensor values{type, {count}, (*allocate_)(static_cast<std::size_t>(count) * layout_->element[ragged])};
  std::byte* to = values.values.get();
  for (std::size_t row = 0; row < tail_at_.size(); ++row) {
    const auto bytes = bytes_of(row, ragged);
    to = std::copy(bytes.begin(), bytes.end(), to);
  }
  return values;
}

void BatchBuilder::add_ragged(std::size_t ragged, ElementType type) {
  HostTensor ends = row_ends(ragged);
  batch_.tensors.push_back(joined_values(ragged, type, int64_values(ends)[share_.rows]));
  batch_.tensors.push_back(std::move(ends));
}

void BatchBuilder::add_texts(std::size_t bytes, std::size_t lengths) {
  HostTensor rows = row_ends(lengths);
  HostTensor offsets = int64_tensor(int64_values(rows)[share_.rows] + 1, *allocate_);
  std::int64_t* end = int64_values(offsets);
  *end = 0;
  for (std::size_t row = 0; row < tail_at_.size(); ++row) {
    end = add_lengths(bytes_of(row, lengths), end);
  }
  batch_.tensors.push_back(joined_values(bytes, ElementType::uint8, *end));
  batch_.tensors.push_back(std::move(offsets));
  batch_.tensors.push_back(std::move(rows));
}

HostBatch BatchBuilder::finish() {
  std::size_t ragged = 0;
  for (std::size_t i = 0; i < fixed_.size(); ++i) {
    if (fixed_[i].values) {
      batch_.tensors.push_back(std::move(fixed_[i]));
    } else if ((*tensors_)[i].texts()) {
      add_texts(ragged, ragged + 1);
      ragged += 2;
    } else {
      add_ragged(ragged++, (*tensors_)[i].columns[0].type);
    }
  }
  return std::move(batch_);
}

}  // namespace dtrain::data
