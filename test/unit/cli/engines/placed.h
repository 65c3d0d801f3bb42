#pragma once
// Where the job that was typed would meet on a made-up machine.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "cli/resolve/resolve.h"
#include "test/unit/cli/test_host.h"

namespace dtrain::cli {

// "host:port rank of min:max, workers, name" of the job, or the error.
inline std::string placed(std::vector<std::string> words, const Host& host, CalledAs as = CalledAs::dtrain) {
  words.emplace_back("./train");
  auto plan = resolve(*parse(words, as), host);
  if (!plan) return plan.error().message;
  const auto& nodes = plan->spec.nodes;
  return fmt::format("{}:{} {} of {}:{}, {}, {}", nodes.master_addr, nodes.port, nodes.node_rank, nodes.min, nodes.max,
                     plan->spec.nproc_per_node, plan->spec.run_id);
}

}  // namespace dtrain::cli
