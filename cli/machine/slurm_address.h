#pragma once
// Where a node of SLURM's is on the network.
#include <string>
#include <string_view>

namespace dtrain::cli {

// The node's name if that resolves; else the address that SLURM uses (NodeAddr), asked of `scontrol`, the path of that
// program or empty; else the name. Forks: call with one thread.
std::string slurm_address(const std::string& node, const std::string& scontrol);

// The value of a key in the first line of what `scontrol show ... --oneliner` prints; empty if there is none. It has no
// blanks. Pure.
std::string scontrol_value(std::string_view says, std::string_view key);
// NodeAddr of a node. Pure.
std::string node_address(const std::string& scontrol_says);

}  // namespace dtrain::cli
