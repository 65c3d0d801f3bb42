// Which state ranks go on from, and who gives what to whom: with all memories there, with some lost, with copies, and
// with another number of ranks.
#include "strategies/kept/restore_plan.h"

#include <algorithm>
#include <map>
#include <random>

#include "test/support/catch.h"

using namespace dtrain::kept;

namespace {

// The memory of a rank of a round in which there were `ranks` of them: each had as many elements of one tensor.
constexpr std::uint64_t kElements = 24;
Found kept_by(std::uint32_t rank, std::uint32_t ranks, std::vector<Stamp> stamps) {
  Found found;
  const std::uint64_t count = kElements / ranks;
  found.identity = {rank, ranks, 7, 4 * count, {{0, rank * count, count, 0}}};
  for (std::size_t i = 0; i < stamps.size(); ++i) found.slots[i] = Slot{stamps[i], i};
  return found;
}

Told told_with(std::vector<Found> memories, std::uint64_t begin = 0, std::uint64_t count = kElements) {
  return {std::move(memories), {{begin, count}}, 7, 0, false};
}

std::string refusal(const std::vector<Told>& of_ranks) {
  const Choice choice = choose(of_ranks);
  CHECK_FALSE(choice.stamp);
  return choice.refused;
}

}  // namespace

TEST_CASE("ranks go on from the newest state that is whole") {
  const auto two = [](std::vector<Stamp> of_first, std::vector<Stamp> of_second) {
    return choose({told_with({kept_by(0, 2, of_first)}), told_with({kept_by(1, 2, of_second)})}).stamp;
  };
  CHECK(two({{0, 4}, {0, 5}}, {{0, 5}, {0, 4}}) == Stamp{0, 5});
  // One rank is a step ahead, and another was killed inside of the keep.
  CHECK(two({{0, 6}, {0, 5}}, {{0, 5}}) == Stamp{0, 5});
  // Steps 6 of two rounds are two states, and the round counts before the step.
  CHECK(two({{0, 5}, {0, 6}}, {{0, 5}, {1, 6}}) == Stamp{0, 5});
  CHECK(two({{1, 3}, {0, 6}}, {{1, 3}, {0, 6}}) == Stamp{1, 3});
}

TEST_CASE("states are newer than those of an earlier run, whose rounds had the same numbers") {
  const Told nothing = told_with({nothing_kept()}), old = told_with({kept_by(0, 2, {{3, 9}, {3, 8}})});
  CHECK(stamped_round({nothing, nothing}, 0) == 0);
  CHECK(stamped_round({nothing, nothing}, 2) == 2);
  CHECK(stamped_round({nothing, old}, 0) == 4);  // for all ranks the same
  CHECK(stamped_round({old, nothing}, 4) == 4);
}

TEST_CASE("a state is whole if the part of each rank is somewhere") {
  // The node of ranks 2 and 3 is gone: their copies are with ranks 0 and 1.
  const std::vector<Stamp> steps{{0, 4}, {0, 5}};
  const auto with_copy = [&](std::uint32_t own, std::uint32_t other) {
    return told_with({kept_by(own, 4, steps), kept_by(other, 4, steps)});
  };
  CHECK(choose({with_copy(0, 2), with_copy(1, 3)}).stamp == Stamp{0, 5});
  CHECK(choose({with_copy(0, 2), with_copy(1, 3), told_with({nothing_kept(), nothing_kept()})}).stamp == Stamp{0, 5});
  CHECK(refusal({with_copy(0, 2), told_with({kept_by(1, 4, steps)})}) ==
        "the kept state cannot be used: of step 5, the part of rank 3 of 4 is nowhere");
  // The copy of rank 3 was torn in step 5.
  CHECK(choose({with_copy(0, 2), told_with({kept_by(1, 4, steps), kept_by(3, 4, {{0, 4}})})}).stamp == Stamp{0, 4});
}

TEST_CASE("without a state that is whole, one line says why") {
  const Choice none = choose({told_with({nothing_kept()}), told_with({nothing_kept()})});
  CHECK_FALSE(none.stamp);
  CHECK(none.refused.empty());
  CHECK(refusal({told_with({kept_by(0, 2, {{0, 5}})}), told_with({nothing_kept()})}) ==
        "the kept state cannot be used: of step 5, the part of rank 1 of 2 is nowhere");
  CHECK(refusal({told_with({kept_by(0, 2, {{0, 4}})}), told_with({kept_by(1, 2, {{0, 5}})})}) ==
        "the kept state cannot be used: of step 5, the part of rank 0 of 2 is nowhere");
  CHECK(refusal({told_with({kept_by(0, 2, {{0, 5}})}), told_with({Found{"its head is damaged"}})}) ==
        "the kept state cannot be used: rank 1: its head is damaged");
}

TEST_CASE("what a rank tells the others is what they hear") {
  Told told = told_with({kept_by(1, 2, {{7, 4}, {8, 1LL << 40}}), nothing_kept(), Found{"no\nreason \xff"}}, 3, 9);
  told.node = 5;
  told.copies = true;
  const Told heard = parse_told(told_text(told));
  CHECK(heard.wanted == told.wanted);
  CHECK(heard.node == 5);
  CHECK(heard.copies);
  REQUIRE(heard.memories.size() == 3);
  CHECK(heard.memories[0].identity == told.memories[0].identity);
  CHECK(slot_of(heard.memories[0], {8, 1LL << 40}) == 1);
  CHECK(heard.memories[0].slots[1]->extra_bytes == 1);
  CHECK(heard.memories[1].blank);
  CHECK_FALSE(heard.memories[2].blank);
  CHECK_THAT(heard.memories[2].why_not, Catch::StartsWith("no\nreason "));
}

TEST_CASE("a rank fills what it needs from its own memory first, then from the others'") {
  const std::vector<Stamp> step{{0, 5}};
  const std::vector<Told> ranks{told_with({kept_by(0, 2, step)}), told_with({kept_by(1, 2, step)}, 10, 4)};
  const auto first = needed_by(ranks, step[0], 0, {4}).transfers;
  REQUIRE(first.size() == 2);
  CHECK((first[0].from.rank == 0 && first[0].begin == 0 && first[0].count == 12 && first[0].at == 0));
  CHECK((first[1].from.rank == 1 && first[1].begin == 12 && first[1].count == 12 && first[1].at == 0));
  const auto second = needed_by(ranks, step[0], 1, {4}).transfers;
  REQUIRE(second.size() == 2);
  CHECK((second[0].from.rank == 1 && second[0].begin == 12 && second[0].count == 2 && second[0].at == 0));
  CHECK((second[1].from.rank == 0 && second[1].begin == 10 && second[1].count == 2 && second[1].at == 40));
}

TEST_CASE("what each rank has kept comes back to the same rank, also out of a copy") {
  const std::vector<Stamp> step{{0, 5}};
  const auto whole = [&](std::uint32_t rank) {
    Found found = kept_by(rank, 2, step);
    found.identity.parts = {{0, 0, kElements, 0}};
    return found;
  };
  // Rank 1 is on a new node, and rank 0 has the copy of what it had.
  const std::vector<Told> ranks{told_with({whole(0), whole(1)}), told_with({nothing_kept()})};
  const auto transfers = needed_by(ranks, step[0], 1, {4}).transfers;
  REQUIRE(transfers.size() == 1);
  CHECK((transfers[0].from.rank == 0 && transfers[0].from.memory == 1 && transfers[0].count == kElements));
}

TEST_CASE("an element that nobody has is named") {
  const std::vector<Stamp> step{{0, 5}};
  std::vector<Told> ranks{told_with({kept_by(0, 2, step)}), told_with({kept_by(1, 2, step)})};
  CHECK_FALSE(needed_by(ranks, step[0], 0, {4}).missing);
  ranks[1].memories[0].identity.parts[0].count = 5;
  CHECK(needed_by(ranks, step[0], 0, {4}).missing == std::pair<std::size_t, std::uint64_t>(0, 17));
}

TEST_CASE("whatever the ranks have kept, each element comes once, and from where it is") {
  std::mt19937 random(20261127);
  const auto below = [&](std::uint64_t bound) { return random() % bound; };
  constexpr std::uint64_t kTensors = 3;
  const Stamp stamp{3, 9};
  for (int trial = 0; trial < 300; ++trial) {
    const auto before = static_cast<std::uint32_t>(1 + below(5)), now = static_cast<std::uint32_t>(1 + below(5));
    std::vector<Told> ranks(now);
    std::vector<Found> memories(before);
    for (std::uint32_t i = 0; i < before; ++i) memories[i] = {"", false, {i, before, 7, 1 << 20, {}}, {Slot{stamp, 0}}};
    for (std::uint64_t tensor = 0; tensor < kTensors; ++tensor) {  // cut into as many parts as there were ranks
      std::vector<std::uint64_t> cuts{0, kElements};
      for (std::uint32_t i = 1; i < before; ++i) cuts.push_back(below(kElements + 1));
      std::sort(cuts.begin(), cuts.end());
      for (std::uint32_t i = 0; i < before; ++i) {
        const std::uint64_t begin = cuts[i], end = std::min(kElements, cuts[i + 1] + below(3));
        if (begin < end) memories[i].identity.parts.push_back({tensor, begin, end - begin, 1000 * tensor});
      }
    }
    for (const Found& memory : memories) {  // with one rank, or with two
      const std::size_t holder = below(now);
      ranks[holder].memories.push_back(memory);
      if (below(2) == 0) ranks[below(now)].memories.push_back(memory);
    }
    for (Told& told : ranks)
      for (std::uint64_t tensor = 0; tensor < kTensors; ++tensor) {
        const std::uint64_t begin = below(kElements);
        told.wanted.emplace_back(begin, below(kElements + 1 - begin));
      }
    REQUIRE(choose(ranks).stamp == stamp);
    for (std::uint32_t rank = 0; rank < now; ++rank) {
      const Needed needed = needed_by(ranks, stamp, static_cast<int>(rank), {1, 2, 4});
      REQUIRE_FALSE(needed.missing);
      std::map<std::pair<std::uint64_t, std::uint64_t>, int> times;
      for (const Transfer& each : needed.transfers) {
        const Found& from = ranks[std::size_t(each.from.rank)].memories[each.from.memory];
        const auto part = std::find_if(from.identity.parts.begin(), from.identity.parts.end(),
                                       [&](const Part& p) { return p.index == each.index; });
        REQUIRE(part != from.identity.parts.end());
        CHECK(each.begin >= part->begin);
        CHECK(each.begin + each.count <= part->begin + part->count);
        CHECK(each.at == part->at + (each.begin - part->begin) * (std::uint64_t{1} << each.index));
        for (std::uint64_t i = 0; i < each.count; ++i) ++times[{each.index, each.begin + i}];
      }
      std::uint64_t wanted = 0;
      for (std::uint64_t tensor = 0; tensor < kTensors; ++tensor) {
        const auto [begin, count] = ranks[rank].wanted[tensor];
        wanted += count;
        for (std::uint64_t i = 0; i < count; ++i) CHECK(times[{tensor, begin + i}] == 1);
      }
      CHECK(times.size() == wanted);
    }
  }
}

TEST_CASE("the copy of a rank's state is on another node, and each rank holds one") {
  CHECK_FALSE(neighbours({0}, 0));
  CHECK_FALSE(neighbours({0, 0}, 0));
  CHECK_FALSE(neighbours({0, 0, 1}, 0));
  for (const std::vector<int>& nodes :
       {std::vector<int>{0, 1}, {0, 0, 1, 1}, {0, 0, 0, 1, 1, 2}, {4, 4, 7, 7, 7, 9, 9}, {0, 1, 1, 2, 2, 2, 3, 3, 3}}) {
    const auto ranks = static_cast<int>(nodes.size());
    std::vector<int> holds(nodes.size());
    for (int rank = 0; rank < ranks; ++rank) {
      const auto found = neighbours(nodes, rank);
      REQUIRE(found);
      CHECK(nodes[std::size_t(found->to)] != nodes[std::size_t(rank)]);
      CHECK(neighbours(nodes, found->to)->from == rank);
      ++holds[std::size_t(found->to)];
    }
    CHECK(std::all_of(holds.begin(), holds.end(), [](int count) { return count == 1; }));
  }
}
