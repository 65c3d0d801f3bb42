#include "data/order/mixture_order.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "data/base/random_bits.h"

namespace dtrain::data {
namespace {

__extension__ using Wide = __int128;  // a product of two numbers of parts

std::size_t heaviest(std::span<const std::int64_t> parts) {
  return static_cast<std::size_t>(std::max_element(parts.begin(), parts.end()) - parts.begin());
}

}  // namespace

MixtureOrder::MixtureOrder(std::uint64_t seed, std::uint64_t epoch, std::span<const std::int64_t> rows, MixtureEnd ends,
                           std::vector<SourceCount> counts)
    : key_(random_bits(random_bits(seed, 2), epoch)),
      rows_(rows.begin(), rows.end()),
      ends_(ends),
      counts_(std::move(counts)) {
  for (const SourceCount& one : counts_) row_ += static_cast<std::uint64_t>(one.taken);
}

std::vector<std::uint32_t> MixtureOrder::take(std::int64_t count) {
  std::vector<std::uint32_t> sources;
  sources.reserve(static_cast<std::size_t>(count));
  for (; count > 0; --count) {
    const std::size_t next = next_source();
    if (is_over(next)) break;
    for (SourceCount& one : counts_) one.behind += one.weight;
    counts_[next].behind -= whole_row;
    ++counts_[next].taken;
    ++row_;
    sources.push_back(static_cast<std::uint32_t>(next));
  }
  return sources;
}

// There is one: with its weight, what all sources still have to get is a whole row.
std::size_t MixtureOrder::next_source() const {
  std::size_t best = counts_.size();
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    const SourceCount& one = counts_[i];
    if (one.weight == 0 || one.behind + one.weight <= 0) continue;
    if (best == counts_.size() || is_before(i, best)) best = i;
  }
  return best;
}

// Whether it would be a whole row behind earlier: (whole_row - behind) / weight is less.
bool MixtureOrder::is_before(std::size_t source, std::size_t other) const {
  const auto left = [&](std::size_t i) { return whole_row - counts_[i].behind - counts_[i].weight; };
  const Wide own = Wide{left(source)} * counts_[other].weight, others = Wide{left(other)} * counts_[source].weight;
  if (own != others) return own < others;
  const std::uint64_t row_key = random_bits(key_, row_);
  return random_bits(row_key, source) > random_bits(row_key, other);
}

bool MixtureOrder::is_over(std::size_t next) const {
  const auto is_read = [&](std::size_t i) { return counts_[i].taken >= rows_[i]; };
  if (ends_ == MixtureEnd::first) return is_read(next);
  if (ends_ == MixtureEnd::never || !is_read(next)) return false;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    if (counts_[i].weight != 0 && !is_read(i)) return false;
  }
  return true;
}

std::optional<std::vector<std::int64_t>> weight_parts(std::span<const double> weights) {
  double sum = 0;
  for (const double weight : weights) {
    if (!(weight >= 0)) return std::nullopt;
    sum += weight;
  }
  if (!std::isfinite(sum) || sum <= 0) return std::nullopt;
  std::vector<std::int64_t> parts;
  std::int64_t left = MixtureOrder::whole_row;
  for (const double weight : weights) {
    const auto part = static_cast<std::int64_t>(weight / sum * static_cast<double>(MixtureOrder::whole_row));
    parts.push_back(weight > 0 ? std::max<std::int64_t>(part, 1) : 0);
    left -= parts.back();
  }
  parts[heaviest(parts)] += left;
  return parts;
}

void set_weights(std::vector<SourceCount>& counts, std::span<const std::int64_t> parts) {
  std::int64_t given = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    counts[i].weight = parts[i];
    if (parts[i] == 0) given += std::exchange(counts[i].behind, 0);
  }
  std::int64_t left = given;
  for (SourceCount& one : counts) {
    const auto own = static_cast<std::int64_t>(Wide{given} * one.weight / MixtureOrder::whole_row);
    one.behind += own;
    left -= own;
  }
  counts[heaviest(parts)].behind += left;
}

}  // namespace dtrain::data
