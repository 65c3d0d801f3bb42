#pragma once
// The kept state of this node's workers: the memories, which the workers get in each round, and the files that carry
// them from one run of the job to the next (--state-dir). Decides nothing: spill_core.h does. Tested by
// test/process/launcher/state_test.py.
#include <boost/asio/io_context.hpp>
#include <functional>
#include <optional>
#include <vector>

#include "launcher/agent/state_memory.h"
#include "launcher/job/group_core.h"
#include "launcher/job/job_spec.h"
#include "rendezvous/base/clock.h"
#include "rendezvous/base/result.h"
#include "rendezvous/base/say.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain::launcher {

class StateKeeper {
 public:
  // Both outlive this object.
  StateKeeper(const JobSpec& spec, const Say& say) : spec_(spec), say_(say) {}

  // What the job's last run has left, before anything else of this run. Blocks. `given_up`: the job is to end, asked
  // again and again, also by other threads.
  void load(const std::function<bool()>& given_up);
  // Adds the descriptors of a worker's memories.
  Result<void> hand_to(int local_rank, std::vector<UniqueFd>& fds);
  // The job is over: its state goes to files, or its files go. The event loop runs meanwhile, so that the node keeps
  // its links. Returns until when the other nodes may take for the same; nothing: there was nothing to do.
  std::optional<MonoTime> close(const std::optional<Outcome>& outcome, MonoTime stop_began,
                                boost::asio::io_context& io);

 private:
  MonoTime spill(MonoTime until, boost::asio::io_context& io);
  void remove(std::optional<int> node);

  const JobSpec& spec_;
  const Say& say_;
  bool abandoned_ = false;  // the loading: the files have more than the memories
  StateMemory own_;
  StateMemory copies_;  // of workers on other nodes
};

}  // namespace dtrain::launcher
