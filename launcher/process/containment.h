#pragma once
// Which containment this machine can give, chosen once at the start of a job (docs/supervision.md).
#include <string>

#include "launcher/job/job_spec.h"
#include "launcher/process/cgroup.h"
#include "rendezvous/base/result.h"

namespace dtrain::launcher {

struct ChosenContainment {
  Containment level = Containment::subreaper;
  JobCgroup cgroup;    // level cgroup
  std::string reason;  // why this level, when `automatic` was asked for
  bool blind = false;  // what workers detach cannot be found

  std::string about() const;  // a line for people
};

// `name` is for people who look at the cgroup tree. An explicit level that cannot be had is an error; `automatic` takes
// cgroup where it works, else subreaper. pidns is only made by start_guard(), which reports its own failure.
Result<ChosenContainment> choose_containment(Containment wanted, const std::string& name);

const char* to_string(Containment level);

}  // namespace dtrain::launcher
