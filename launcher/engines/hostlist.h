#pragma once
// SLURM's short form of a list of hosts: "node[01-04,7],gpu-[1-2]x[3-4],login". Pure and total: any text gives the
// names in SLURM's order or an error.
//  - A bracket holds numbers and ranges of numbers. Leading zeros are kept: [08-11] is 08 09 10 11.
//  - Several brackets in one name give every combination, the last one changing fastest.
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/base/result.h"

namespace dtrain::launcher {

// SLURM's own limit on a range.
inline constexpr std::size_t kMostHosts = 65536;

// At least one name, each of at most 255 bytes, none of them empty. Error: no such list, or more than `most` names.
Result<std::vector<std::string>> expand_hostlist(std::string_view text, std::size_t most = kMostHosts);

}  // namespace dtrain::launcher
