// Joins the rows of ..._flags.h into one table. Order: that of FlagId, which is that of the help.
// Tested by test/unit/cli/table/flags_test.cc.
#include <algorithm>
#include <array>

#include "cli/table/flags.h"
#include "cli/table/general_flags.h"
#include "cli/table/node_flags.h"
#include "cli/table/output_flags.h"
#include "cli/table/program_flags.h"
#include "cli/table/stopping_flags.h"
#include "cli/table/torchrun_flags.h"
#include "cli/table/worker_flags.h"

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
