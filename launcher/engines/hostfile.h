#pragma once
// Lists of hosts as users of mpirun, horovodrun and DeepSpeed have them: files, a list on the command line, and a
// choice among them. Pure.
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/base/result.h"

namespace dtrain::launcher {

struct PlacedHost {
  std::string name;
  int slots = 0;              // workers, 0: not said
  std::vector<int> chosen{};  // these of the slots alone, ascending; empty: all
  // 0: not said.
  int workers() const { return chosen.empty() ? slots : static_cast<int>(chosen.size()); }
  bool operator==(const PlacedHost&) const = default;
};

// A line for each host: "NAME", "NAME slots=8", "NAME:8"; '#' begins a comment. Lines of one host add up, as in
// $PBS_NODEFILE, which has a line for each slot. Error: the number of the line, and what is wrong with it.
Result<std::vector<PlacedHost>> parse_hostfile(std::string_view text);

// "NAME:8,NAME:4", with SLURM's ranges in names: "node[1-4]:8".
Result<std::vector<PlacedHost>> parse_hosts(std::string_view text);

// A host's name as such a list has it when slots follow: "[fe80::1]", "user@[fe80::1]", "node1".
std::string name_in_list(std::string_view name);

// DeepSpeed's: "NAME@NAME:0,2" names hosts, and slots of hosts. Only these are left, in the order of `hosts`; or, for
// exclude, only the others. Error: a name or a slot that is not there; nothing is left.
Result<std::vector<PlacedHost>> include_hosts(std::vector<PlacedHost> hosts, std::string_view filter);
Result<std::vector<PlacedHost>> exclude_hosts(std::vector<PlacedHost> hosts, std::string_view filter);

}  // namespace dtrain::launcher
