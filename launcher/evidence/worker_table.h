#pragma once
// What the agent knows of the workers of the present round, one row a worker. Pure: events come in as calls.
#include <sys/types.h>

#include <optional>
#include <vector>

#include "launcher/base/tail_buffer.h"
#include "launcher/evidence/worker_end.h"
#include "launcher/job/worker_env.h"
#include "launcher/logs/log_tree.h"
#include "launcher/status/status_report.h"
#include "rendezvous/base/clock.h"

namespace dtrain::launcher {

struct WorkerRow {
  int local_rank = 0;
  int rank = 0;   // of the job
  pid_t pid = 0;  // 0: not started
  MonoTime started{};
  MonoTime wrote{};  // when the worker last wrote something
  LogPaths paths;
  TailBuffer tail;               // of stderr
  std::optional<WorkerEnd> end;  // none: the worker has not ended
  bool outlived = false;         // the others went on after its end, which is no cause of theirs
  bool replaced = false;         // this process took the place of another of the same round
};

class WorkerTable {
 public:
  explicit WorkerTable(int workers) : rows_(std::size_t(workers)) {}

  // Forgets the round before.
  void begin_round(const Assignment& place);

  // Forgets the worker that is gone.
  void replace(int local_rank);

  // The node's place in the round; none before the first round.
  const std::optional<Assignment>& place() const { return place_; }
  WorkerRow& row(int local_rank) { return rows_.at(std::size_t(local_rank)); }
  const WorkerRow& row(int local_rank) const { return rows_.at(std::size_t(local_rank)); }
  const std::vector<WorkerRow>& rows() const { return rows_; }
  bool all_started() const;
  // The end of the worker that ended last; none while all run.
  std::optional<MonoTime> last_end() const;

  // The workers of this round for `dtrain status`; none before the first round.
  std::vector<WorkerNow> now(MonoTime now) const;

 private:
  std::vector<WorkerRow> rows_;  // by local rank
  std::optional<Assignment> place_;
};

}  // namespace dtrain::launcher
