#pragma once
// The workers of a round that the guard has started and not yet reaped. Each has a pidfd: by it the guard signals that
// process and no other, and epoll tells the guard of its death. epoll lists pidfds in the order of the deaths, so the
// guard reaps workers by pidfd, in that order. waitid() would go by age, and the wrong worker would count as the first
// failure.
#include <sys/types.h>

#include <optional>
#include <vector>

#include "rendezvous/base/unique_fd.h"

namespace dtrain::launcher {

class GuardedWorkers {
 public:
  struct Worker {
    int local_rank;
    pid_t pid;
    UniqueFd pidfd;
    bool attached;  // it has the terminal
  };
  struct Ended {
    int local_rank;
    pid_t pid;
    int code;    // si_code
    int status;  // si_status
  };
  struct Stopped {
    int local_rank;
    int signal;
  };

  void add(Worker worker) { workers_.push_back(std::move(worker)); }
  bool empty() const { return workers_.empty(); }
  std::vector<pid_t> pids() const;

  // To the worker processes alone.
  void signal(int signal) const;
  // SIGKILL to each worker and its process group.
  void kill() const;

  // SIGKILL to what is left of the process group of the dead worker of this pidfd, if the worker has failed.
  void kill_group_of_failed(int pidfd) const;
  // Reap the dead worker of this pidfd and forget it; closing the pidfd takes it out of epoll. Empty: it lives.
  std::optional<Ended> reap(int pidfd);
  // The attached worker was stopped by its terminal since the last call.
  std::optional<Stopped> stopped_by_terminal() const;

  enum class DeadWorkers { wait_for_their_turn, are_reaped_too };
  // Reap what workers have left behind and the guard has inherited. A dead worker may stand before it. True: there may
  // be more (kReapedInARow).
  bool reap_orphans(DeadWorkers workers);

 private:
  std::vector<Worker> workers_;
};

}  // namespace dtrain::launcher
