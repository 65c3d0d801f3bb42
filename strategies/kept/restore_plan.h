#pragma once
// Which state the ranks go on from, and who gives what to whom, when the workers of a round find the memories that
// earlier rounds have left. Pure: every rank hears the same of all ranks and comes to the same result.
//
// A memory has the part of the rank that kept it, wherever the memory is now: its own rank has it, a neighbour has a
// copy, or, where the number of ranks is another one, some rank. So the parts of a state may come back to other ranks
// and to other numbers of ranks.
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "strategies/kept/kept_core.h"

namespace dtrain::kept {

// What a rank tells the others.
struct Told {
  std::vector<Found> memories;                                  // its own, and where it has one, that of copies
  std::vector<std::pair<std::uint64_t, std::uint64_t>> wanted;  // of each tensor: the first element, and how many
  std::uint64_t fingerprint = 0;                                // of the tensors it has
  int node = 0;
  bool copies = false;  // it can hold a copy of another rank's state
};
std::string told_text(const Told& told);
Told parse_told(const std::string& text);

// The newest state whose parts are all there. `refused`: there are states, but none is whole, and this line says why.
// Nothing of both: nothing was kept.
struct Choice {
  std::optional<Stamp> stamp{};
  std::string refused{};
};
Choice choose(const std::vector<Told>& of_ranks);

// The round that the states of this round are stamped with: it is after those of all states that are there, also if
// these are of an earlier run of the job, whose rounds began at 0 too.
std::uint32_t stamped_round(const std::vector<Told>& of_ranks, int round);

// Where the part of rank `keeper` of a state is.
struct Place {
  int rank = 0;  // whose memories
  std::size_t memory = 0, slot = 0;
};
// For a rank that needs it: its own memory if that has the part, else that of the lowest rank. Nothing: nobody has it.
std::optional<Place> place_of(const std::vector<Told>& of_ranks, const Stamp& stamp, int keeper, int needed_by);

// Elements that a rank needs.
struct Transfer {
  Place from;
  std::uint64_t index = 0;             // of the tensor
  std::uint64_t begin = 0, count = 0;  // in the whole tensor
  std::uint64_t at = 0;                // bytes, in the values of the slot
};
// All that this rank needs. What several ranks have kept of a tensor comes from the part of the rank with the same
// number first. `sizes`: bytes of an element of each tensor.
struct Needed {
  std::vector<Transfer> transfers{};
  std::optional<std::pair<std::size_t, std::uint64_t>> missing{};  // a tensor, and its element that nobody has
};
Needed needed_by(const std::vector<Told>& of_ranks, const Stamp& stamp, int rank,
                 const std::vector<std::uint64_t>& sizes);

// Who holds the second copy of whose state: each rank sends its state to one rank on another node, and gets that of
// one. By the node of each rank, where the ranks of a node have numbers in a row. Nothing: a node has more than half of
// the ranks.
struct Neighbours {
  int to = 0, from = 0;
};
std::optional<Neighbours> neighbours(const std::vector<int>& node_of_rank, int rank);

}  // namespace dtrain::kept
