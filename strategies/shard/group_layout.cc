#include "strategies/shard/group_layout.h"

#include <algorithm>
#include <numeric>

namespace dtrain {
namespace {

constexpr std::int64_t kMostWaste = 16;  // one part in so many of the buffer may belong to no parameter

// Elements that stay together.
std::int64_t granule(const LaidOutParameter& parameter) {
  switch (parameter.placement.kind) {
    case Placement::Kind::rows:
      return parameter.row;
    case Placement::Kind::blocks:
      return std::min(parameter.placement.rows, parameter.rows) * parameter.row;
    case Placement::Kind::owned:
      break;
  }
  return parameter.elements();
}

using Parameters = std::vector<LaidOutParameter>;

void place_in_order(const Parameters& parameters, GroupLayout& layout) {
  layout.at.resize(parameters.size());
  for (const std::size_t each : layout.order) {
    layout.at[each] = layout.elements;
    layout.elements += parameters[each].elements();
  }
}

// The nearest place that divides no granule, below or at `wanted`, or above where that is nearer.
std::int64_t nearest_cut(const Parameters& parameters, const GroupLayout& layout, std::int64_t wanted) {
  for (const std::size_t each : layout.order) {
    const std::int64_t begin = layout.at[each], end = begin + parameters[each].elements();
    if (wanted >= end) continue;
    const std::int64_t unit = granule(parameters[each]);
    const std::int64_t below = begin + (wanted - begin) / unit * unit, above = std::min(below + unit, end);
    return above - wanted < wanted - below ? above : below;
  }
  return wanted;  // behind the last
}

bool cuts_at(const Parameters& parameters, const GroupLayout& layout, std::int64_t place) {
  return nearest_cut(parameters, layout, place) == place;
}

// Parts of one size, or no bounds.
std::vector<std::int64_t> even_bounds(const Parameters& parameters, const GroupLayout& layout, std::int64_t ranks) {
  const std::int64_t all = layout.elements, least = (all + ranks - 1) / ranks;
  std::int64_t step = 1;
  for (const LaidOutParameter& each : parameters) step = std::max(step, granule(each));
  if (step > least) step = 1;
  for (std::int64_t size = (least + step - 1) / step * step; size * ranks - all <= all / kMostWaste; size += step) {
    std::vector<std::int64_t> bounds{0};
    while (static_cast<std::int64_t>(bounds.size()) <= ranks && cuts_at(parameters, layout, bounds.back()))
      bounds.push_back(bounds.back() + size);
    if (static_cast<std::int64_t>(bounds.size()) > ranks && cuts_at(parameters, layout, std::min(bounds.back(), all)))
      return bounds;
    if (step == 1 && size - least > 64) break;
  }
  return {};
}

void divide(const Parameters& parameters, std::int64_t ranks, GroupLayout& layout) {
  // Large granules first: where each is a multiple of the next, a part of a multiple of the first cuts none.
  std::stable_sort(layout.order.begin(), layout.order.end(),
                   [&](std::size_t a, std::size_t b) { return granule(parameters[a]) > granule(parameters[b]); });
  place_in_order(parameters, layout);
  layout.bounds = even_bounds(parameters, layout, ranks);
  if (!layout.bounds.empty()) {
    layout.elements = layout.bounds.back();
    return;
  }
  for (std::int64_t r = 0; r <= ranks; ++r) {
    const std::int64_t cut = nearest_cut(parameters, layout, layout.elements * r / ranks);
    layout.bounds.push_back(std::max(cut, layout.bounds.empty() ? 0 : layout.bounds.back()));
  }
}

// Longest first, each to the rank that has least (Graham, "Bounds on Multiprocessing Timing Anomalies", 1969).
void give_away(const Parameters& parameters, std::int64_t element_bytes, std::vector<std::int64_t> loads,
               GroupLayout& layout) {
  std::vector<std::size_t> largest = layout.order;
  std::stable_sort(largest.begin(), largest.end(),
                   [&](std::size_t a, std::size_t b) { return parameters[a].elements() > parameters[b].elements(); });
  std::vector<std::size_t> owner(parameters.size());
  for (const std::size_t each : largest) {
    owner[each] = static_cast<std::size_t>(std::min_element(loads.begin(), loads.end()) - loads.begin());
    loads[owner[each]] += parameters[each].elements() * element_bytes;
  }
  std::stable_sort(layout.order.begin(), layout.order.end(),
                   [&](std::size_t a, std::size_t b) { return owner[a] < owner[b]; });
  place_in_order(parameters, layout);
  layout.bounds.assign(loads.size() + 1, 0);
  for (std::size_t i = 0; i < parameters.size(); ++i) layout.bounds[owner[i] + 1] += parameters[i].elements();
  std::partial_sum(layout.bounds.begin(), layout.bounds.end(), layout.bounds.begin());
}

}  // namespace

bool GroupLayout::even() const {
  for (std::size_t r = 1; r < bounds.size(); ++r) {
    if (bounds[r] != bounds[1] * static_cast<std::int64_t>(r)) return false;
  }
  return true;
}

GroupLayout lay_out(const Parameters& parameters, std::int64_t element_bytes, std::vector<std::int64_t>& loads) {
  GroupLayout layout;
  layout.order.resize(parameters.size());
  std::iota(layout.order.begin(), layout.order.end(), std::size_t{0});
  const bool owned = std::any_of(parameters.begin(), parameters.end(), [](const LaidOutParameter& each) {
    return each.placement.kind == Placement::Kind::owned;
  });
  if (owned) {
    give_away(parameters, element_bytes, loads, layout);
  } else {
    divide(parameters, static_cast<std::int64_t>(loads.size()), layout);
  }
  for (std::size_t r = 0; r < loads.size(); ++r) loads[r] += layout.size(static_cast<int>(r)) * element_bytes;
  return layout;
}

}  // namespace dtrain
