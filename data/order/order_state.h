#pragma once
// Where a loader is in its data set, as a text of at most 100 bytes for a checkpoint. Pure.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dtrain::data {

struct OrderState {
  std::uint64_t epoch = 0;
  std::int64_t rows_done = 0;  // of this epoch, by all ranks together
  std::uint64_t seed = 0;
  std::int64_t window = 0;   // RowOrder's
  std::uint64_t digest = 0;  // of the table of row groups

  bool operator==(const OrderState&) const = default;
};

// "rows1" and the five numbers in hexadecimal, with '-' between.
std::string to_text(const OrderState& state);
// Nothing if it is not such a text.
std::optional<OrderState> order_state(std::string_view text);

}  // namespace dtrain::data
