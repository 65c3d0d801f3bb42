#pragma once
// What rows that wait have of the ragged columns: a row's tail. Rows differ in length, so a tail is a chain of pieces
// of one size, and the pieces of a row that has left serve the next row, whatever its length. Pure.
//
//   piece   | number of the next piece, 4 bytes | bytes ... |
//   tail    | end of each column's bytes, as a distance from the first of them | bytes of each column |
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

#include "data/base/row_layout.h"

namespace dtrain::data {

class TailHeap {
 public:
  using Number = std::uint32_t;  // of a piece
  static constexpr Number none = UINT32_MAX;
  struct Tail {
    Number first = none, last = none;
  };

  // The size of pieces for tails of this many bytes on average, the ends of the columns included. Half a piece is lost
  // with each tail, and in each piece the number of the next one. This size loses least, more or less.
  static constexpr std::size_t piece_for(std::size_t tail_bytes) {
    std::size_t piece = 32;
    while (piece < 4096 && piece * piece < 8 * tail_bytes) piece *= 2;
    return piece;
  }
  // What such a tail takes, on average.
  static constexpr std::size_t bytes_for(std::size_t tail_bytes) {
    const std::size_t piece = piece_for(tail_bytes);
    return tail_bytes * piece / (piece - sizeof(Number)) + piece / 2;
  }

  // For rows with `columns` ragged columns. It takes memory as it needs it, and keeps it.
  TailHeap(std::size_t columns, std::size_t piece) : columns_(columns), piece_(piece) {}
  // In this memory, which must outlive the heap. Another heap over the same memory can read what this one writes.
  TailHeap(std::size_t columns, std::size_t piece, std::span<std::byte> memory)
      : columns_(columns), piece_(piece), given_(memory) {}

  // The tail of row `row`. Throws std::length_error if there is no memory for it.
  Tail write(const RowLayout& layout, std::span<const ColumnSpan> columns, std::size_t row) {
    Writer to(*this);
    const auto begin_of = [&](std::size_t i, std::size_t at) {
      return static_cast<std::size_t>(columns[layout.ragged[i]].offsets[at]) * layout.element[i];
    };
    std::uint64_t end = 0;
    for (std::size_t i = 0; i < columns_; ++i) {
      end += begin_of(i, row + 1) - begin_of(i, row);
      to.put(reinterpret_cast<const std::byte*>(&end), sizeof end);
    }
    for (std::size_t i = 0; i < columns_; ++i) {
      const std::size_t from = begin_of(i, row);
      to.put(columns[layout.ragged[i]].values + from, begin_of(i, row + 1) - from);
    }
    return to.tail();
  }

  // Appends a tail that begins with this piece.
  void read(Number first, std::vector<std::byte>& to) const {
    const std::size_t begin = to.size();
    Reader from(*this, first);
    from.append(columns_ * sizeof(std::uint64_t), to);
    from.append(end_of(to.data() + begin, columns_ - 1), to);
  }

  // The bytes of ragged column `i` of `columns` in a tail that has been read.
  static std::span<const std::byte> bytes(const std::byte* tail, std::size_t i, std::size_t columns) {
    const std::uint64_t begin = i == 0 ? 0 : end_of(tail, i - 1);
    return {tail + columns * sizeof begin + begin, end_of(tail, i) - begin};
  }

  // The row of this tail has left. It may be none.
  void free(const Tail& tail) {
    if (tail.first == none) return;
    link(tail.last, free_);
    free_ = tail.first;
  }

 private:
  static constexpr std::size_t block_bytes = std::size_t{1} << 20;

  // Fills pieces one after the other.
  class Writer {
   public:
    explicit Writer(TailHeap& heap) : heap_(&heap), first_(heap.take()), last_(first_) {}
    void put(const std::byte* from, std::size_t bytes) {
      while (bytes != 0) {
        if (used_ == heap_->piece_) {
          const Number next = heap_->take();
          heap_->link(last_, next);
          last_ = next;
          used_ = sizeof(Number);
        }
        const std::size_t now = std::min(bytes, heap_->piece_ - used_);
        std::memcpy(heap_->at(last_) + used_, from, now);
        used_ += now;
        from += now;
        bytes -= now;
      }
    }
    Tail tail() const { return {first_, last_}; }

   private:
    TailHeap* heap_;
    Number first_, last_;
    std::size_t used_ = sizeof(Number);
  };

  class Reader {
   public:
    Reader(const TailHeap& heap, Number first) : heap_(&heap), piece_(heap.at(first)) {}
    void append(std::size_t bytes, std::vector<std::byte>& to) {
      while (bytes != 0) {
        if (used_ == heap_->piece_) {
          piece_ = heap_->at(heap_->next_of(piece_));
          used_ = sizeof(Number);
        }
        const std::size_t now = std::min(bytes, heap_->piece_ - used_);
        to.insert(to.end(), piece_ + used_, piece_ + used_ + now);
        used_ += now;
        bytes -= now;
      }
    }

   private:
    const TailHeap* heap_;
    const std::byte* piece_;
    std::size_t used_ = sizeof(Number);
  };

  static std::uint64_t end_of(const std::byte* tail, std::size_t i) {
    std::uint64_t end;
    std::memcpy(&end, tail + i * sizeof end, sizeof end);
    return end;
  }

  std::byte* at(Number piece) const {
    if (!given_.empty()) return given_.data() + piece * piece_;
    const std::size_t in_block = block_bytes / piece_;
    return blocks_[piece / in_block].get() + piece % in_block * piece_;
  }
  static Number next_of(const std::byte* piece) {
    Number next;
    std::memcpy(&next, piece, sizeof next);
    return next;
  }
  void link(Number piece, Number next) { std::memcpy(at(piece), &next, sizeof next); }

  Number take() {
    const Number piece = free_;
    if (piece != none) {
      free_ = next_of(at(piece));
      return piece;
    }
    const std::size_t end = (std::size_t{pieces_} + 1) * piece_;
    if (pieces_ == none || (!given_.empty() && end > given_.size())) {
      throw std::length_error("its rows are much longer than the footers of the files say");
    }
    if (given_.empty() && end > blocks_.size() * block_bytes) {
      blocks_.push_back(std::make_unique_for_overwrite<std::byte[]>(block_bytes));
    }
    return pieces_++;
  }

  std::size_t columns_, piece_;
  std::span<std::byte> given_;
  std::vector<std::unique_ptr<std::byte[]>> blocks_;  // without given memory
  Number pieces_ = 0;                                 // that have been used; those of free_ are a list among them
  Number free_ = none;
};

}  // namespace dtrain::data
