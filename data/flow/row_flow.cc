#include "data/flow/row_flow.h"

#include <algorithm>
#include <chrono>

#include "data/parquet/seconds_since.h"

namespace dtrain::data {
namespace {

std::size_t turn_of(const RowOrder& order, std::int64_t row) {
  const auto& turns = order.turns();
  const auto after =
      std::upper_bound(turns.begin(), turns.end(), row,
                       [](std::int64_t value, const RowOrder::Turn& turn) { return value < turn.first; });
  return static_cast<std::size_t>(std::max<std::ptrdiff_t>(after - turns.begin() - 1, 0));
}

}  // namespace

RowFlow::RowFlow(const LoaderParts& parts, const OrderState& at, RowArena& arena)
    : set_(parts.set),
      order_(parts.order(at)),
      buffer_(order_, at.rows_done),
      arena_(&arena),
      turn_(turn_of(order_, buffer_.next_row())) {}

// The next bucket leaves, once its last row has entered.
bool RowFlow::advance(const std::atomic<bool>& stop, const std::function<void()>& after_group) {
  while (buffer_.next_row() < buffer_.due()) {
    if (!group_) {
      const auto begin = std::chrono::steady_clock::now();
      group_ = set_->read(static_cast<std::size_t>(order_.turns()[turn_].group), stop);
      if (!group_) return false;
      seconds_.read += seconds_since(begin);
      seconds_.disk += group_->disk_seconds;
      if (after_group) after_group();
    }
    enter_block();
  }
  buffer_.emit(leaving_);
  return !stop;
}

void RowFlow::enter_block() {
  const RowOrder::Turn& turn = order_.turns()[turn_];
  const std::int64_t first = buffer_.next_row(), end = std::min(buffer_.due(), turn.first + turn.rows);
  buffer_.enter(std::min(end - first, RowArena::block_rows), entering_);
  arena_->grow(buffer_.slots());
  arena_->write(group_->columns, first - turn.first, entering_);
  if (buffer_.next_row() == turn.first + turn.rows) {
    group_.reset();
    ++turn_;
  }
}

}  // namespace dtrain::data
