#include "launcher/agent/prepare_worker.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "launcher/base/inherited.h"
#include "launcher/evidence/blame_file.h"
#include "launcher/guard/guard_protocol.h"
#include "launcher/progress/progress_file.h"

namespace dtrain::launcher {

namespace {

UniqueFd stdin_for(const StdinMode& mode, int local_rank) {
  using Kind = StdinMode::Kind;
  const bool ours = mode.kind == Kind::all || (mode.kind == Kind::rank && mode.local_rank == local_rank);
  UniqueFd fd(ours ? ::fcntl(0, F_DUPFD_CLOEXEC, 3) : -1);
  return fd ? std::move(fd) : empty_input();
}

// Whether no other worker of this node, or of another group, is seen on the console, so that there are no lines of
// others to tear.
bool alone_on_console(const JobSpec& spec, int base_rank) {
  int seen = spec.replicas.here > 1 ? 1 : 0;
  for (int r = 0; r < spec.nproc_per_node && seen < 2; ++r) {
    const Streams hidden = Streams(unsigned(spec.redirects.of(r)) & ~unsigned(spec.tee.of(r)));
    if (spec.console.shows(base_rank + r, r) && hidden != Streams::all) ++seen;
  }
  return seen == 1;
}

// The window of a worker that has the terminal to itself: what stands before each line takes a part of its width.
std::optional<WindowSize> window_beside(const std::string& prefix, bool timestamps) {
  auto window = window_size(STDOUT_FILENO);
  if (!window) return std::nullopt;
  constexpr std::size_t kStamp = 30;      // 2026-11-21T13:22:03.123+01:00 and a blank
  constexpr std::size_t kNarrowest = 20;  // a prefix that leaves less than this must wrap
  const auto continues = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; };  // UTF-8
  const std::size_t before =
      prefix.size() - std::size_t(std::count_if(prefix.begin(), prefix.end(), continues)) + (timestamps ? kStamp : 0);
  if (window->columns >= before + kNarrowest) window->columns = static_cast<unsigned short>(window->columns - before);
  return window;
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
  const bool prefixed = !(plain && spec.console.raw);
  if (prefixed) stream.prefix = prefix.shown;
  if (tee && stream.to_console) {
    stream.copy = shared.copy(which);
    stream.copy_prefix = prefix.plain;
  }
  // The worker that the user looks at or talks to: its progress bars and prompts have no line end.
  const bool alone = stream.to_console && alone_on_console(spec, rank - local_rank);
  const bool chosen = spec.stdin_mode.kind == StdinMode::Kind::rank && spec.stdin_mode.local_rank == local_rank;
  stream.eager = alone || chosen;
  // Not its stderr: programs colour what they write to a terminal, and the failure report reads exceptions there.
  if (alone && plain && out && !stream.direct)
    stream.window = window_beside(prefixed ? prefix.plain : "", spec.console.timestamps);
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
  const int rank = assignment.base_rank + local_rank;
  files->paths.blame = blame_path(files->attempt, rank);
  if (spec.status_server && rank == 0) files->paths.progress = progress_path(files->attempt);

  const auto dollars = spec.collapse_double_dollar ? DoubleDollar::collapse : DoubleDollar::keep;
  std::vector<std::string> argv;
  for (const auto& arg : spec.argv) argv.push_back(substitute_local_rank(arg, local_rank, dollars));
  const Environment contract =
      worker_env(spec, assignment, local_rank, {files->paths.error_file, files->attempt, files->paths.progress});
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
