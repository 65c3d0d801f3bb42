#pragma once
// Which processes of this machine are ranks of one job and one node, by what the launcher has set.
#include <optional>
#include <string>

namespace dtrain::data {

struct NodeJob {
  int rank = 0;         // another number in each process of the node
  int local_ranks = 1;  // how many these are
  std::string name;     // of the job, the node and the round: processes with another one have nothing to share
};

// From RANK, or LOCAL_RANK if there is none, LOCAL_WORLD_SIZE and the variables that name the job. LOCAL_RANK may be 0
// in all, as --virtual-local-rank sets it. Nothing: this rank is alone on its node, or no launcher says so.
std::optional<NodeJob> node_job();

}  // namespace dtrain::data
