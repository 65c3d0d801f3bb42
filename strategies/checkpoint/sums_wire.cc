// See sums_wire.h.
#include "strategies/checkpoint/sums_wire.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <tuple>

#include "strategies/checkpoint/crc32c.h"

namespace dtrain::checkpoint {
namespace {

struct PartOfRank {
  PartSum part;
  std::size_t rank = 0;
};

template <class Number>
Number next_number(std::string_view& text, char end) {
  Number value = 0;
  const auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || at == text.data() + text.size() || *at != end)
    throw Refused("what another rank tells of its parts makes no sense");
  text.remove_prefix(static_cast<std::size_t>(at - text.data()) + 1);
  return value;
}

WholeSum whole_sum(const TensorSpec& tensor, std::vector<PartOfRank>& parts) {
  std::sort(parts.begin(), parts.end(), [](const PartOfRank& a, const PartOfRank& b) {
    return std::tie(a.part.begin, a.part.count, a.rank) < std::tie(b.part.begin, b.part.count, b.rank);
  });
  WholeSum whole;
  std::uint64_t at = 0;
  const PartOfRank* before = nullptr;
  for (const PartOfRank& one : parts) {
    const PartSum& part = one.part;
    if (before != nullptr && part.begin == before->part.begin && part.count == before->part.count) {
      if (part.sum == before->part.sum) continue;
      whole.why = fmt::format("rank {} and rank {} have different values of it", before->rank, one.rank);
      return whole;
    }
    if (part.begin < at) {
      whole.why = fmt::format("rank {} and rank {} both have its element {}", before->rank, one.rank, part.begin);
      return whole;
    }
    if (part.begin > at) break;
    whole.sum = crc32c_joined(whole.sum, part.sum, part.count * tensor.element_bytes());
    at += part.count;
    before = &one;
  }
  whole.covered = at == tensor.elements();
  if (!whole.covered) whole.why = fmt::format("no rank has its element {}", at);
  return whole;
}

}  // namespace

std::string sums_text(const std::vector<PartSum>& sums) {
  std::string text;
  for (const PartSum& one : sums) text += fmt::format("{} {} {} {}\n", one.tensor, one.begin, one.count, one.sum);
  return text;
}

std::vector<PartSum> parse_sums(std::string_view text) {
  std::vector<PartSum> sums;
  while (!text.empty()) {
    PartSum one;
    one.tensor = next_number<std::size_t>(text, ' ');
    one.begin = next_number<std::uint64_t>(text, ' ');
    one.count = next_number<std::uint64_t>(text, ' ');
    one.sum = next_number<std::uint32_t>(text, '\n');
    sums.push_back(one);
  }
  return sums;
}

std::vector<WholeSum> whole_sums(const std::vector<TensorSpec>& tensors,
                                 const std::vector<std::vector<PartSum>>& of_ranks) {
  std::vector<std::vector<PartOfRank>> parts(tensors.size());
  for (std::size_t rank = 0; rank < of_ranks.size(); ++rank)
    for (const PartSum& one : of_ranks[rank]) {
      if (one.tensor >= tensors.size()) throw Refused("what another rank tells of its parts makes no sense");
      if (one.count != 0) parts[one.tensor].push_back({one, rank});
    }
  std::vector<WholeSum> whole;
  for (std::size_t i = 0; i < tensors.size(); ++i) whole.push_back(whole_sum(tensors[i], parts[i]));
  return whole;
}

}  // namespace dtrain::checkpoint
