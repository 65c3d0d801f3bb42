#include "launcher/agent/round_start.h"

#include <unistd.h>

#include <utility>

#include "launcher/base/host_name.h"
#include "launcher/terminal/wants_color.h"

namespace dtrain::launcher {

RoundStart::RoundStart(const Parts& parts)
    : parts_(parts),
      host_(short_hostname()),
      color_(wants_color(parts.spec.color, STDOUT_FILENO)),
      jobs_group_(::getpgid(::getppid())) {}

std::optional<Error> RoundStart::begin(const action::StartRound& round) {
  const int workers = parts_.spec.nproc_per_node;
  parts_.guard.send({GuardOp::begin_round, -1, workers});
  const auto assignment = parts_.rounds.begin(round);
  std::optional<Error> failed;
  if (!assignment) failed = assignment.error();
  assignment_ = assignment ? *assignment : Assignment{};
  at_start_ = use_of_terminal();
  parts_.record.begin_round(assignment_);
  for (int i = 0; i < workers; ++i) {
    if (!failed) failed = start_worker(assignment_, i);
    // The guard counts its spawns: one without a payload is answered with `not started`.
    if (failed) parts_.guard.send({GuardOp::spawn, i});
  }
  return failed;
}

std::optional<Error> RoundStart::replace(const action::ReplaceWorker& worker) {
  Assignment assignment = assignment_;
  assignment.incarnation = worker.incarnation;
  parts_.record.replaced(worker.local_rank);
  auto failed = start_worker(assignment, worker.local_rank);
  if (failed) parts_.guard.send({GuardOp::spawn, worker.local_rank});  // it answers `not started`
  return failed;
}

// An attached worker is a job of its own to the terminal: the kernel stops it when it must not read.
TerminalUse RoundStart::use_of_terminal() const {
  const bool nobody_reads = parts_.spec.attach || parts_.spec.stdin_mode.kind == StdinMode::Kind::none;
  return nobody_reads ? TerminalUse::none : standard_input_use(jobs_group_);
}

Prefix RoundStart::prefix_of(int local_rank, int rank) const {
  const JobSpec& spec = parts_.spec;
  PrefixFields fields{spec.role, local_rank, rank, host_};
  if (spec.replicas.groups > 0) fields.replica_group = spec.replicas.group();
  const std::string text = render_prefix(spec.prefix_template, fields);
  return {text, color_ ? color_prefix(text, spec.replicas.at * spec.nproc_per_node + rank) : text};
}

std::optional<Error> RoundStart::start_worker(const Assignment& assignment, int local_rank) {
  const JobSpec& spec = parts_.spec;
  const StdinMode input = keeps_terminal_back() ? StdinMode{StdinMode::Kind::none} : spec.stdin_mode;
  auto worker = prepare_worker(spec, assignment, local_rank, input, parent_env_, parts_.logs);
  if (!worker) return worker.error();
  parts_.record.files(local_rank, worker->files.paths);
  const int rank = assignment.base_rank + local_rank;
  const Prefix prefix = prefix_of(local_rank, rank);
  auto streams = worker_streams(spec, rank, local_rank, prefix, worker->files, files_);
  if (!streams) return streams.error();
  const bool attached = spec.attach == local_rank;
  auto ends = attached ? parts_.terminal->ends_for_worker()
                       : parts_.output.open(local_rank, std::move(streams->out), std::move(streams->err));
  if (!ends) return ends.error();
  auto fds = descriptors_for_guard(std::move(*worker), std::move(*ends));
  if (auto handed = parts_.states.hand_to(local_rank, fds); !handed) return handed.error();
  const Session session = attached ? parts_.terminal->session() : Session::own;
  parts_.guard.send({GuardOp::spawn, local_rank, int32_t(session)}, std::move(fds));
  return std::nullopt;
}

}  // namespace dtrain::launcher
