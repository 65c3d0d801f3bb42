#include "strategies/kept/told_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <utility>

namespace dtrain::kept {

std::string told_text(const ToldParts& told) {
  std::string text = fmt::format("{}", told.value_bytes);
  for (const ToldPart& part : told.parts)
    text += fmt::format(" {} {} {} {}", part.index, part.begin, part.count, part.at);
  return text;
}

ToldParts parse_told(const std::string& text) {
  ToldParts told;
  std::istringstream words(text);
  words >> told.value_bytes;
  ToldPart part;
  while (words >> part.index >> part.begin >> part.count >> part.at) told.parts.push_back(part);
  return told;
}

std::optional<std::uint64_t> missing_element(const std::vector<ToldParts>& of_ranks, std::size_t index,
                                             std::uint64_t elements) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  for (const ToldParts& told : of_ranks)
    for (const ToldPart& part : told.parts)
      if (part.index == index) ranges.emplace_back(part.begin, part.begin + part.count);
  std::sort(ranges.begin(), ranges.end());
  std::uint64_t at = 0;
  for (const auto& [begin, end] : ranges) {
    if (begin > at) break;
    at = std::max(at, end);
  }
  return at < elements ? std::optional(at) : std::nullopt;
}

}  // namespace dtrain::kept
