#pragma once
// The jobs that a node's replica groups are. Pure.
#include <vector>

#include "launcher/job/job_spec.h"

namespace dtrain::launcher {

// One for each group that this node has, with a name of its own (`exp-g1`), its part of CPUs and devices, and a port
// and a report file of its own where the user has chosen them.
std::vector<JobSpec> group_specs(const JobSpec& node);

}  // namespace dtrain::launcher
