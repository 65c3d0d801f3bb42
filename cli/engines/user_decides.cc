// Tested by test/unit/cli/engines/slurm_test.cc.
#include "cli/engines/user_decides.h"

#include <algorithm>
#include <array>

namespace dtrain::cli {
namespace {

// Who says one of these has said where the nodes meet.
constexpr std::array kPlaces = {FlagId::standalone, FlagId::rdzv_backend, FlagId::rdzv_endpoint, FlagId::node_rank,
                                FlagId::master_addr};

}  // namespace

bool user_decides(const Options& options) {
  if (std::any_of(kPlaces.begin(), kPlaces.end(), [&](FlagId id) { return options.given(id); })) return true;
  const std::string& nnodes = options.text(FlagId::nnodes);
  return options.given(FlagId::nnodes) && (nnodes == "1" || nnodes == "1:1");
}

}  // namespace dtrain::cli
