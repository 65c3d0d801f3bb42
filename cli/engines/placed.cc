// Tested by test/unit/cli/engines/hosts_test.cc.
#include "cli/engines/placed.h"

namespace dtrain::cli {

void take_from_engine(const Host& host, Options& options) {
  if (!host.place) return;
  const launcher::AgentPlace& place = *host.place;
  const std::string where = "--engine " + place.engine;
  const auto take = [&](FlagId id, const std::string& text) {
    if (!text.empty()) options.suggest(id, text, where);
  };
  take(FlagId::nnodes, place.nnodes);
  take(FlagId::node_rank, place.node_rank);
  take(FlagId::rdzv_endpoint, place.endpoint);
  take(FlagId::run_id, place.run_id);
  take(FlagId::nproc, place.nproc);
  take(FlagId::rdzv_conf, place.conf);
}

}  // namespace dtrain::cli
