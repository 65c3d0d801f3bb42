#pragma once
// Whose turn it is to end when a round is stopped: first the turn of the workers, each with its process group and with
// the other groups of its session; when these have ended, the turn of the rest, which has sessions of its own. No
// process gets the signal of one request twice. For the guard, below which every process of the round is.
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "launcher/process/sweep.h"

namespace dtrain::launcher {

class StopTurns {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // How long the rest gets to end by itself: helpers often end soon after their worker.
  static constexpr auto kSettles = std::chrono::milliseconds(200);

  void worker_started(pid_t pid) { workers_.push_back(pid); }

  // A new request: signal every worker, its process group and its session. `alive`: workers that are not reaped. All
  // processes are continued, here and in signal_rest(): a stopped process acts on no signal.
  void signal_workers(int signal, const std::vector<pid_t>& alive);
  // After rest_is_due(): signal what is left, except processes that have had the signal of this request. What is below
  // another launcher is left to that launcher.
  void signal_rest(int signal);

  // To be asked while the workers are gone and something of the round is not. True: for kSettles nothing has been left
  // of the groups and sessions that were signalled. True once for each request, and once in a round without a request.
  // Ask again after kSettles, and when a child has ended; most calls do not look at /proc.
  bool rest_is_due(Time now);
  bool waits_for_rest() const { return !rest_told_; }

 private:
  using Identity = std::pair<pid_t, std::uint64_t>;  // a pid alone may become another process

  // Whether a worker of this round leads its process group or session.
  bool is_with_worker(const Descendant& process) const;
  bool worker_is_left() const;

  std::vector<pid_t> workers_;  // of this round; each leads a process group, most lead a session
  std::set<Identity> reached_;  // processes that have the signal of the present request
  bool stopping_ = false;       // there has been a request
  bool rest_told_ = false;
  std::optional<Time> workers_gone_;
  Time next_look_{};
};

// SIGSTOP and SIGCONT: to all processes below the caller at once, the groups of `workers` first.
void signal_everything(int signal, const std::vector<pid_t>& workers);

}  // namespace dtrain::launcher
