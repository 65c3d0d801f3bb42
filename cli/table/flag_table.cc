// Joins the rows of flag_table/ into one table. Order: that of FlagId, which is that of the help.
#include <algorithm>
#include <array>

#include "cli/flag_table/general.h"
#include "cli/flag_table/nodes.h"
#include "cli/flag_table/output.h"
#include "cli/flag_table/program.h"
#include "cli/flag_table/stopping.h"
#include "cli/flag_table/torchrun.h"
#include "cli/flag_table/workers.h"
#include "cli/flags.h"

namespace dtrain::cli {
namespace {

template <std::size_t... Sizes>
constexpr auto joined(const Flag (&... parts)[Sizes]) {
  std::array<Flag, (Sizes + ...)> all{};
  auto end = all.begin();
  ((end = std::copy(std::begin(parts), std::end(parts), end)), ...);
  return all;
}

constexpr auto kFlags =
    joined(kWorkersFlags, kNodesFlags, kProgramFlags, kStoppingFlags, kOutputFlags, kGeneralFlags, kTorchrunFlags);

constexpr bool ordered_by_id() {
  for (std::size_t i = 0; i < kFlags.size(); ++i)
    if (static_cast<std::size_t>(kFlags[i].id) != i) return false;
  return true;
}
static_assert(kFlags.size() == kFlagCount && ordered_by_id(), "one row for each FlagId, in its order");

}  // namespace

std::span<const Flag> flags() { return kFlags; }

}  // namespace dtrain::cli
