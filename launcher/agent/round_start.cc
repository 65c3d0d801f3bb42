#include "launcher/round_start.h"

#include <utility>

namespace dtrain::launcher {

std::optional<Error> RoundStart::begin(const action::StartRound& round) {
  const int workers = parts_.spec.nproc_per_node;
  parts_.guard.send({GuardOp::begin_round, -1, workers});
  const auto assignment = parts_.rounds.begin(round);
  std::optional<Error> failed;
  if (!assignment) failed = assignment.error();
  parts_.record.begin_round(assignment ? *assignment : Assignment{});
  for (int i = 0; i < workers; ++i) {
    if (!failed) failed = start_worker(*assignment, i);
    // The guard counts its spawns: one without a payload is answered with `not started`.
    if (failed) parts_.guard.send({GuardOp::spawn, i});
  }
  return failed;
}

std::optional<Error> RoundStart::start_worker(const Assignment& assignment, int local_rank) {
  const JobSpec& spec = parts_.spec;
  auto worker = prepare_worker(spec, assignment, local_rank, parent_env_, parts_.logs);
  if (!worker) return worker.error();
  parts_.record.files(local_rank, worker->files.paths);
  const int rank = assignment.base_rank + local_rank;
  const Prefix prefix = parts_.record.prefix(local_rank, rank);
  auto streams = worker_streams(spec, rank, local_rank, prefix, worker->files, files_);
  if (!streams) return streams.error();
  const bool attached = spec.attach == local_rank;
  auto ends = attached ? parts_.terminal->ends_for_worker()
                       : parts_.output.open(local_rank, std::move(streams->out), std::move(streams->err));
  if (!ends) return ends.error();
  const Session session = attached ? parts_.terminal->session() : Session::own;
  parts_.guard.send({GuardOp::spawn, local_rank, int32_t(session)},
                    descriptors_for_guard(std::move(*worker), std::move(*ends)));
  return std::nullopt;
}

}  // namespace dtrain::launcher
