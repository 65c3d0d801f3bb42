#pragma once
// Where a node of SLURM's is on the network.
#include <string>

namespace dtrain::cli {

// The node's name if that resolves; else the address that SLURM uses (NodeAddr), asked of `scontrol`, the path of that
// program or empty; else the name. Forks: call with one thread.
std::string slurm_address(const std::string& node, const std::string& scontrol);

// NodeAddr in what `scontrol show node NAME --oneliner` prints; empty if there is none. Pure.
std::string node_address(const std::string& scontrol_says);

}  // namespace dtrain::cli
