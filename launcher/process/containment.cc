#include "launcher/process/containment.h"

#include <fmt/format.h>

#include "launcher/process/sweep.h"

namespace dtrain::launcher {

const char* to_string(Containment level) {
  switch (level) {
    case Containment::automatic:
      return "auto";
    case Containment::cgroup:
      return "cgroup";
    case Containment::subreaper:
      return "subreaper";
    case Containment::pidns:
      return "pidns";
  }
  return "?";
}

std::string ChosenContainment::about() const {
  return fmt::format("containment {}{}{}", to_string(level), reason.empty() ? "" : ": ", reason);
}

Result<ChosenContainment> choose_containment(Containment wanted, const std::string& name) {
  ChosenContainment chosen;
  constexpr const char* kBlind = "/proc does not show the processes here, so what workers detach cannot be found";
  if (wanted == Containment::subreaper && !can_find_processes())
    return Error{ErrorKind::system,
                 fmt::format("--contain subreaper is not possible here: {}; use --contain pidns", kBlind)};
  if (wanted == Containment::subreaper || wanted == Containment::pidns) {
    chosen.level = wanted;
    return chosen;
  }
  auto cgroup = JobCgroup::create(name);
  if (cgroup) {
    chosen.level = Containment::cgroup;
    chosen.cgroup = std::move(*cgroup);
    return chosen;
  }
  if (wanted == Containment::cgroup) {
    return Error{ErrorKind::system,
                 "--contain cgroup is not possible here: " + cgroup.error().message +
                     "; use --contain auto, or run inside `systemd-run --user --scope -p Delegate=yes`"};
  }
  chosen.reason = cgroup.error().message;
  chosen.blind = !can_find_processes();
  if (chosen.blind) chosen.reason = fmt::format("{} (--contain pidns holds it)", kBlind);
  return chosen;
}

}  // namespace dtrain::launcher
