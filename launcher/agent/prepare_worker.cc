#include "launcher/agent/prepare_worker.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "launcher/base/inherited.h"
#include "launcher/evidence/blame_file.h"
#include "launcher/guard/guard_protocol.h"

namespace dtrain::launcher {

namespace {

UniqueFd stdin_for(const StdinMode& mode, int local_rank) {
  using Kind = StdinMode::Kind;
  const bool ours = mode.kind == Kind::all || (mode.kind == Kind::rank && mode.local_rank == local_rank);
  UniqueFd fd(ours ? ::fcntl(0, F_DUPFD_CLOEXEC, 3) : -1);
  return fd ? std::move(fd) : empty_input();
}

StreamSpec stream_spec(const JobSpec& spec, Streams which, int rank, int local_rank, const Prefix& prefix,
                       WorkerFiles& files, const RoundFiles& shared) {
  const bool out = which == Streams::out;
  StreamSpec stream;
  stream.rank = rank;
  stream.which = which;
  const bool tee = has(spec.tee.of(local_rank), which);
  const bool plain = !tee && !has(spec.redirects.of(local_rank), which);  // to no file
  stream.to_console = (tee || plain) && spec.console.shows(rank, local_rank);
  const bool as_it_comes = spec.console.raw && !spec.console.timestamps && !spec.console.fold;
  stream.direct = plain && stream.to_console && as_it_comes && ::isatty(out ? 1 : 2) == 1;
  if (!(plain && spec.console.raw)) stream.prefix = prefix.shown;
  if (tee && stream.to_console) {
    stream.copy = shared.copy(which);
    stream.copy_prefix = prefix.plain;
  }
  // The worker that the user talks to: its prompts have no line end.
  const bool alone = spec.stdin_mode.kind == StdinMode::Kind::all && spec.nproc_per_node == 1;
  const bool chosen = spec.stdin_mode.kind == StdinMode::Kind::rank && spec.stdin_mode.local_rank == local_rank;
  stream.eager = alone || chosen;
  stream.file = std::move(out ? files.out : files.err);
  stream.file_path = out ? files.paths.out : files.paths.err;
  return stream;
}

}  // namespace

Result<PreparedWorker> prepare_worker(const JobSpec& spec, const Assignment& assignment, int local_rank,
                                      const StdinMode& input, const std::vector<std::string>& parent_env,
                                      LogTree& logs) {
  const auto to_files = Streams(unsigned(spec.redirects.of(local_rank)) | unsigned(spec.tee.of(local_rank)));
  auto files = logs.open_worker(assignment.restart_count, local_rank, to_files);
  if (!files) return files.error();
  files->paths.blame = blame_path(files->attempt, assignment.base_rank + local_rank);

  const auto dollars = spec.collapse_double_dollar ? DoubleDollar::collapse : DoubleDollar::keep;
  std::vector<std::string> argv;
  for (const auto& arg : spec.argv) argv.push_back(substitute_local_rank(arg, local_rank, dollars));
  const Environment contract = worker_env(spec, assignment, local_rank, {files->paths.error_file, files->attempt});
  auto payload = write_exec_payload(argv, launcher::apply(parent_env, contract));
  if (!payload) return payload.error();
  UniqueFd in = stdin_for(input, local_rank);
  if (!in) return system_error("cannot make an empty standard input for a worker", errno);
  return PreparedWorker{std::move(*payload), std::move(in), std::move(*files)};
}

std::vector<UniqueFd> descriptors_for_guard(PreparedWorker worker, StreamEnds ends) {
  std::vector<UniqueFd> fds;
  fds.push_back(std::move(worker.exec_payload));
  fds.push_back(std::move(worker.stdin_fd));
  fds.push_back(std::move(ends.out));
  fds.push_back(std::move(ends.err));
  return fds;
}

Result<WorkerStreams> worker_streams(const JobSpec& spec, int rank, int local_rank, const Prefix& prefix,
                                     WorkerFiles& files, RoundFiles& shared) {
  if (auto opened = shared.open(spec, files.attempt); !opened) return opened.error();
  auto stream = [&](Streams which) { return stream_spec(spec, which, rank, local_rank, prefix, files, shared); };
  return WorkerStreams{stream(Streams::out), stream(Streams::err)};
}

}  // namespace dtrain::launcher
