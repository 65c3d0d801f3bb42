#include "data/order/mixture_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>

namespace dtrain::data {
namespace {

constexpr std::string_view mixture_mark = "mix1";

std::int64_t sum_of(const std::vector<SourceCount>& counts, std::int64_t SourceCount::*member) {
  std::int64_t sum = 0;
  for (const SourceCount& one : counts) sum += one.*member;
  return sum;
}

// What a source has to get after `rows` rows with this weight. The products may be too large, their difference is not.
std::int64_t behind_of(const SourceCount& one, std::int64_t rows) {
  const auto bits = [](std::int64_t number) { return static_cast<std::uint64_t>(number); };
  return static_cast<std::int64_t>(bits(rows) * bits(one.weight) - bits(one.taken) * bits(MixtureOrder::whole_row));
}

std::uint64_t folded(std::int64_t number) {
  return (static_cast<std::uint64_t>(number) << 1) ^ static_cast<std::uint64_t>(number >> 63);
}

std::int64_t unfolded(std::uint64_t bits) {
  return static_cast<std::int64_t>(bits >> 1) ^ -static_cast<std::int64_t>(bits & 1);
}

// The number behind `mark`, with which the text begins. Both are taken off.
std::optional<std::uint64_t> number_behind(char mark, std::string_view& text) {
  if (!text.starts_with(mark)) return std::nullopt;
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data() + 1, text.data() + text.size(), number, 16);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

// With these no sum is too large.
constexpr std::int64_t taken_max = std::int64_t{1} << 48, behind_max = std::int64_t{1} << 48;
constexpr std::size_t sources_max = 10'000;

bool is_possible(const std::vector<SourceCount>& counts) {
  for (const SourceCount& one : counts) {
    if (one.behind < -behind_max || one.behind > behind_max || (one.weight == 0 && one.behind != 0)) return false;
  }
  return sum_of(counts, &SourceCount::weight) == MixtureOrder::whole_row && sum_of(counts, &SourceCount::behind) == 0;
}

}  // namespace

std::string to_text(const MixtureState& state) {
  std::string text = fmt::format("{}-{:x}-{:x}-{:x}", mixture_mark, state.epoch, state.files, state.orders);
  const std::int64_t rows = sum_of(state.counts, &SourceCount::taken);
  const bool have_changed = std::any_of(state.counts.begin(), state.counts.end(),
                                        [&](const SourceCount& one) { return one.behind != behind_of(one, rows); });
  for (const SourceCount& one : state.counts) {
    fmt::format_to(std::back_inserter(text), "-{:x}.{:x}", one.taken, one.weight);
    if (have_changed) fmt::format_to(std::back_inserter(text), ".{:x}", folded(one.behind));
  }
  return text;
}

std::optional<MixtureState> mixture_state(std::string_view text) {
  if (!text.starts_with(mixture_mark)) return std::nullopt;
  text.remove_prefix(mixture_mark.size());
  MixtureState state;
  for (std::uint64_t* number : {&state.epoch, &state.files, &state.orders}) {
    const auto found = number_behind('-', text);
    if (!found) return std::nullopt;
    *number = *found;
  }
  std::size_t behinds = 0;
  while (!text.empty()) {
    const auto taken = number_behind('-', text);
    if (!taken) return std::nullopt;
    const auto weight = number_behind('.', text);
    if (!weight || *weight > MixtureOrder::whole_row || *taken > taken_max) return std::nullopt;
    const auto behind = number_behind('.', text);
    if (behind) ++behinds;
    state.counts.push_back({.weight = static_cast<std::int64_t>(*weight),
                            .behind = unfolded(behind.value_or(0)),
                            .taken = static_cast<std::int64_t>(*taken)});
  }
  if (state.counts.size() > sources_max || (behinds != 0 && behinds != state.counts.size())) return std::nullopt;
  const std::int64_t rows = behinds == 0 ? sum_of(state.counts, &SourceCount::taken) : 0;
  for (SourceCount& one : state.counts) {
    if (behinds == 0) one.behind = behind_of(one, rows);
  }
  return is_possible(state.counts) ? std::optional(state) : std::nullopt;
}

}  // namespace dtrain::data
