#pragma once
// The start of a round: its store, and for each worker what the guard needs to start it. The guard is asked for every
// worker of the round, also where something failed: it counts.
#include <optional>
#include <string>
#include <vector>

#include "launcher/attached_terminal.h"
#include "launcher/guard_link.h"
#include "launcher/job_record.h"
#include "launcher/job_spec.h"
#include "launcher/log_tree.h"
#include "launcher/node_rounds.h"
#include "launcher/prepare_worker.h"
#include "launcher/round_files.h"
#include "launcher/worker_output.h"

namespace dtrain::launcher {

class RoundStart {
 public:
  // All of it outlives this object. terminal: null unless a worker is attached.
  struct Parts {
    const JobSpec& spec;
    const AttachedTerminal* terminal;
    LogTree& logs;
    NodeRounds& rounds;
    GuardLink& guard;
    WorkerOutput& output;
    JobRecord& record;
  };
  explicit RoundStart(const Parts& parts) : parts_(parts) {}

  // What failed is the user's to read; the guard answers `not started` for the workers that it concerns.
  std::optional<Error> begin(const action::StartRound& round);

 private:
  std::optional<Error> start_worker(const Assignment& assignment, int local_rank);

  Parts parts_;
  RoundFiles files_;
  std::vector<std::string> parent_env_ = own_environment();
};

}  // namespace dtrain::launcher
