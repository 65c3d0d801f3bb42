#pragma once
// The start of a round: its store, and for each worker what the guard needs to start it. The guard is asked for every
// worker of the round, also where something failed: it counts. Tested by test/process/launcher/rounds_test.py.
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/prepare_worker.h"
#include "launcher/agent/state_keeper.h"
#include "launcher/base/inherited.h"
#include "launcher/guard/guard_channel.h"
#include "launcher/hosting/node_rounds.h"
#include "launcher/job/job_spec.h"
#include "launcher/job/prefix.h"
#include "launcher/logs/log_tree.h"
#include "launcher/logs/round_files.h"
#include "launcher/output/worker_output.h"
#include "launcher/process/attached_terminal.h"
#include "launcher/report/job_record.h"

namespace dtrain::launcher {

class RoundStart {
 public:
  // All parts outlive this object. terminal: null unless a worker is attached.
  struct Parts {
    const JobSpec& spec;
    const AttachedTerminal* terminal;
    LogTree& logs;
    NodeRounds& rounds;
    GuardChannel& guard;
    WorkerOutput& output;
    JobRecord& record;
    StateKeeper& states;
  };
  // Call in the agent, a child of the front.
  explicit RoundStart(const Parts& parts);

  // What failed is the user's to read; the guard answers `not started` for the workers that it concerns.
  std::optional<Error> begin(const action::StartRound& round);

  // Starts a new process in the place of a worker of this round that is gone.
  std::optional<Error> replace(const action::ReplaceWorker& worker);

  // Whether workers that may read a terminal have been kept from it: another job had it when their round began.
  bool keeps_terminal_back() const { return at_start_ == TerminalUse::background; }
  // Whether workers have a terminal that is another job's by now.
  bool shares_terminal() const {
    return at_start_ == TerminalUse::foreground && standard_input_use(jobs_group_) == TerminalUse::background;
  }

 private:
  std::optional<Error> start_worker(const Assignment& assignment, int local_rank);
  TerminalUse use_of_terminal() const;
  Prefix prefix_of(int local_rank, int rank) const;

  Parts parts_;
  Assignment assignment_;  // of this round
  const std::string host_;
  const bool color_;                          // of prefixes, on stdout
  pid_t jobs_group_;                          // the process group that the shell knows
  TerminalUse at_start_ = TerminalUse::none;  // of the round; `none` also where no worker may read
  RoundFiles files_;
  std::vector<std::string> parent_env_ = own_environment();
};

}  // namespace dtrain::launcher
