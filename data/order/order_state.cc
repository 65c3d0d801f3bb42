#include "data/order/order_state.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

namespace dtrain::data {
namespace {

constexpr std::string_view state_mark = "rows1";

}  // namespace

std::string to_text(const OrderState& state) {
  return fmt::format("{}-{:x}-{:x}-{:x}-{:x}-{:x}", state_mark, state.epoch, state.rows_done, state.seed, state.window,
                     state.digest);
}

std::optional<OrderState> order_state(std::string_view text) {
  if (!text.starts_with(state_mark)) return std::nullopt;
  text.remove_prefix(state_mark.size());
  std::array<std::uint64_t, 5> numbers{};
  for (std::uint64_t& number : numbers) {
    if (!text.starts_with('-')) return std::nullopt;
    text.remove_prefix(1);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
    if (error != std::errc{}) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  }
  if (!text.empty() || numbers[1] > INT64_MAX || numbers[3] > INT64_MAX) return std::nullopt;
  return OrderState{.epoch = numbers[0],
                    .rows_done = static_cast<std::int64_t>(numbers[1]),
                    .seed = numbers[2],
                    .window = static_cast<std::int64_t>(numbers[3]),
                    .digest = numbers[4]};
}

}  // namespace dtrain::data
