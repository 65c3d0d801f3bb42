#pragma once
// Which processes of this machine are ranks of one job and one node, by what the launcher has set.
#include <optional>
#include <string>

namespace dtrain::data {

struct NodeJob {
  int local_rank = 0, local_ranks = 1;
  std::string name;  // of the job, the node and the round: processes with another one have nothing to share
};

// From LOCAL_RANK, LOCAL_WORLD_SIZE and the variables that name the job. Nothing: this rank is alone on its node, or no
// launcher says so.
std::optional<NodeJob> node_job();

}  // namespace dtrain::data
