#pragma once
// The MPI job that a launcher has started this process in (launcher/engines/mpi_plan.h).
#include <sys/types.h>

#include <map>
#include <string>

#include "launcher/engines/mpi_plan.h"
#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"
#include "rendezvous/pmi/mpi_meeting.h"

namespace dtrain::cli {

// Who has started this process, through shells and the like.
struct MpiAncestry {
  pid_t launcher = -1;  // mpirun itself, or its daemon on this host; -1: it is not seen, as from within a container
  std::string program;  // that stands between and may use MPI itself: the launcher's word is for that one
};
MpiAncestry mpi_ancestry();

// All processes of the job must call. Waits for them for two minutes. Forks: call with one thread.
Result<MpiMeeting> meet_by_mpi(const launcher::MpiProcess& process, const std::map<std::string, std::string>& env,
                               MpiSelf self);

// Its environment and its descriptors, which workers inherit, have nothing of the launcher's any more.
void leave_mpi();
// The CPUs that an agent may use: the launcher's own, if it has chosen those of this process by itself; else those of
// all processes of its host.
void take_cpus_of_host(const launcher::MpiProcess& process, pid_t launcher, const MpiSeat& seat);
// A pidfd of the launcher, or of its daemon; nothing if it is not seen. The job ends with it.
UniqueFd watch_launcher(pid_t launcher);

}  // namespace dtrain::cli
