#pragma once
// Where a mixture is, as a text for a checkpoint. Pure.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/order/mixture_order.h"

namespace dtrain::data {

struct MixtureState {
  std::uint64_t epoch = 0;
  std::uint64_t files = 0;   // a digest of the sources' names and of their tables of row groups
  std::uint64_t orders = 0;  // a digest of the seeds and the windows
  std::vector<SourceCount> counts = {};

  bool operator==(const MixtureState&) const = default;
};

// "mix1" and numbers in hexadecimal: epoch, files and orders, with '-' between, and for each source "-TAKEN.WEIGHT". If
// the weights have changed in this epoch, ".BEHIND" is at the end, as twice the number, or for a negative one twice its
// amount less 1. Otherwise it follows from the others.
std::string to_text(const MixtureState& state);
// Nothing if it is not such a text.
std::optional<MixtureState> mixture_state(std::string_view text);

}  // namespace dtrain::data
