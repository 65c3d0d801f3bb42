#include "strategies/kept/restore_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace dtrain::kept {
namespace {

using Json = nlohmann::json;

Json json_of(const Found& found) {
  Json slots = Json::array(), parts = Json::array();
  for (const auto& slot : found.slots)
    slots.push_back(slot ? Json{slot->stamp.round, slot->stamp.step, slot->extra_bytes} : Json());
  for (const Part& part : found.identity.parts) parts.push_back({part.index, part.begin, part.count, part.at});
  return {{"why_not", found.why_not},
          {"blank", found.blank},
          {"rank", found.identity.rank},
          {"world_size", found.identity.world_size},
          {"value_bytes", found.identity.value_bytes},
          {"slots", slots},
          {"parts", parts}};
}

Found found_of(const Json& json, std::uint64_t fingerprint) {
  Found found{json.at("why_not"), json.at("blank")};
  found.identity = {json.at("rank"), json.at("world_size"), fingerprint, json.at("value_bytes")};
  for (const Json& part : json.at("parts"))
    found.identity.parts.push_back({part.at(0), part.at(1), part.at(2), part.at(3)});
  for (std::size_t slot = 0; slot < kSlots; ++slot)
    if (const Json& is = json.at("slots").at(slot); !is.is_null())
      found.slots[slot] = Slot{{is.at(0), is.at(1)}, is.at(2)};
  return found;
}

// The numbers of the ranks whose parts are there, by state, and how many ranks had kept it.
struct State {
  std::set<std::uint32_t> keepers;
  std::uint32_t world_size = 0;
};
using States = std::map<Stamp, State>;

States states_of(const std::vector<Told>& of_ranks) {
  States states;
  for (const Told& told : of_ranks)
    for (const Found& found : told.memories)
      for (const auto& slot : found.slots)
        if (slot) {
          State& state = states[slot->stamp];
          state.keepers.insert(found.identity.rank);
          state.world_size = found.identity.world_size;
        }
  return states;
}

// What of an interval is still lacking, as intervals; take() gives back what of it another one has.
class Lacking {
 public:
  using Range = std::pair<std::uint64_t, std::uint64_t>;  // begin, end

  explicit Lacking(Range range) {
    if (range.first < range.second) ranges_.push_back(range);
  }
  std::vector<Range> take(Range range) {
    std::vector<Range> taken, left;
    for (const auto& [begin, end] : ranges_) {
      const std::uint64_t from = std::max(begin, range.first), to = std::min(end, range.second);
      if (from >= to) {
        left.emplace_back(begin, end);
        continue;
      }
      taken.emplace_back(from, to);
      if (begin < from) left.emplace_back(begin, from);
      if (to < end) left.emplace_back(to, end);
    }
    ranges_ = std::move(left);
    return taken;
  }
  bool none() const { return ranges_.empty(); }
  std::uint64_t first() const { return std::min_element(ranges_.begin(), ranges_.end())->first; }

 private:
  std::vector<Range> ranges_;
};

}  // namespace

std::string told_text(const Told& told) {
  Json memories = Json::array();
  for (const Found& found : told.memories) memories.push_back(json_of(found));
  return Json{{"memories", memories},
              {"wanted", told.wanted},
              {"fingerprint", told.fingerprint},
              {"node", told.node},
              {"copies", told.copies}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

Told parse_told(const std::string& text) {
  const Json json = Json::parse(text);
  Told told{{}, json.at("wanted"), json.at("fingerprint"), json.at("node"), json.at("copies")};
  for (const Json& each : json.at("memories")) told.memories.push_back(found_of(each, told.fingerprint));
  return told;
}

Choice choose(const std::vector<Told>& of_ranks) {
  const States states = states_of(of_ranks);
  for (auto state = states.rbegin(); state != states.rend(); ++state)
    if (state->second.keepers.size() == state->second.world_size) return {state->first, {}};
  for (std::size_t rank = 0; rank < of_ranks.size(); ++rank)
    for (const Found& found : of_ranks[rank].memories)
      if (!found.blank && !found.why_not.empty())
        return {{}, fmt::format("the kept state cannot be used: rank {}: {}", rank, found.why_not)};
  if (states.empty()) return {};
  const auto& [stamp, newest] = *states.rbegin();
  std::uint32_t lost = 0;
  while (newest.keepers.contains(lost)) ++lost;
  return {{},
          fmt::format("the kept state cannot be used: of step {}, the part of rank {} of {} is nowhere", stamp.step,
                      lost, newest.world_size)};
}

std::uint32_t stamped_round(const std::vector<Told>& of_ranks, int round) {
  const States states = states_of(of_ranks);
  const auto own = static_cast<std::uint32_t>(round);
  return states.empty() ? own : std::max(own, states.rbegin()->first.round + 1);
}

std::optional<Place> place_of(const std::vector<Told>& of_ranks, const Stamp& stamp, int keeper, int needed_by) {
  const auto in = [&](int rank) -> std::optional<Place> {
    const auto& memories = of_ranks[static_cast<std::size_t>(rank)].memories;
    for (std::size_t i = 0; i < memories.size(); ++i)
      if (const auto slot = slot_of(memories[i], stamp);
          slot && memories[i].identity.rank == static_cast<std::uint32_t>(keeper))
        return Place{rank, i, *slot};
    return std::nullopt;
  };
  if (const auto own = in(needed_by)) return own;
  for (int rank = 0; rank < static_cast<int>(of_ranks.size()); ++rank)
    if (const auto place = in(rank)) return place;
  return std::nullopt;
}

Needed needed_by(const std::vector<Told>& of_ranks, const Stamp& stamp, int rank,
                 const std::vector<std::uint64_t>& sizes) {
  const auto& wanted = of_ranks[static_cast<std::size_t>(rank)].wanted;
  std::vector<Lacking> lacking;
  for (const auto& [begin, count] : wanted) lacking.emplace_back(Lacking::Range{begin, begin + count});
  Needed needed;
  const auto keepers = static_cast<int>(states_of(of_ranks)[stamp].world_size);
  for (int i = 0; i < keepers; ++i) {
    const auto place = place_of(of_ranks, stamp, (rank + i) % keepers, rank);
    if (!place) continue;
    for (const Part& part : of_ranks[static_cast<std::size_t>(place->rank)].memories[place->memory].identity.parts)
      if (part.index < lacking.size())
        for (const auto& [begin, end] : lacking[part.index].take({part.begin, part.begin + part.count}))
          needed.transfers.push_back(
              {*place, part.index, begin, end - begin, part.at + (begin - part.begin) * sizes[part.index]});
  }
  for (std::size_t i = 0; i < lacking.size() && !needed.missing; ++i)
    if (!lacking[i].none()) needed.missing = {i, lacking[i].first()};
  return needed;
}

std::optional<Neighbours> neighbours(const std::vector<int>& node_of_rank, int rank) {
  const auto ranks = static_cast<int>(node_of_rank.size());
  std::map<int, int> ranks_of_node;
  for (const int node : node_of_rank) ++ranks_of_node[node];
  int most = 0;
  for (const auto& [node, count] : ranks_of_node) most = std::max(most, count);
  if (2 * most > ranks) return std::nullopt;
  return Neighbours{(rank + most) % ranks, (rank + ranks - most) % ranks};
}

}  // namespace dtrain::kept
