#include "launcher/job_record.h"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <iterator>

#include "launcher/core_path.h"
#include "launcher/exit_codes.h"
#include "launcher/host_name.h"
#include "launcher/prefix.h"
#include "launcher/report_file.h"
#include "launcher/small_file.h"
#include "launcher/torchrun_report.h"

namespace dtrain::launcher {

namespace {

// https://no-color.org and the habit of TERM=dumb.
bool wants_color(Color color, int fd) {
  if (color != Color::automatic) return color == Color::always;
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return ::isatty(fd) == 1 && (no_color == nullptr || *no_color == 0) && term != nullptr &&
         std::string_view(term) != "dumb";
}

bool is_crash(const ExitStatus& status) {
  constexpr int kCrashes[] = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSYS, SIGTRAP};
  return status.kind == ExitStatus::Kind::signaled &&
         std::find(std::begin(kCrashes), std::end(kCrashes), status.code) != std::end(kCrashes);
}

std::string local_time(int64_t seconds) {
  const std::time_t t = seconds;
  std::tm parts{};
  char text[32] = {};
  if (::localtime_r(&t, &parts) != nullptr) std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
  return text;
}

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string current_folder() {
  char path[PATH_MAX] = {};
  return ::getcwd(path, sizeof path) != nullptr ? path : "";
}

}  // namespace

JobRecord::JobRecord(const JobSpec& spec, std::string cgroup_folder, std::function<void(const std::string&)> note)
    : spec_(spec),
      hostname_(short_hostname()),
      torchruns_hostname_(spec.torchrun_report || spec.event_log ? qualified_hostname() : hostname_),
      color_(wants_color(spec.color, 1)),
      color_on_stderr_(wants_color(spec.color, 2)),
      cgroup_folder_(std::move(cgroup_folder)),
      workers_(size_t(spec.nproc_per_node)),
      note_(std::move(note)) {
  place_.node_rank = -1;  // until a round has begun
}

Prefix JobRecord::prefix(int local_rank, int rank) const {
  const std::string text = render_prefix(spec_.prefix_template, {spec_.role, local_rank, rank, hostname_});
  return {text, color_ ? color_prefix(text, rank) : text};
}

void JobRecord::begin_round(const Assignment& assignment) {
  log_round(assignment);
  place_ = assignment;
  memory_before_ = read_oom_counts(cgroup_folder_);
  for (Worker& w : workers_) w = Worker();
}

void JobRecord::files(int local_rank, const LogPaths& paths) { workers_[size_t(local_rank)].paths = paths; }

void JobRecord::started(int local_rank, pid_t pid, MonoTime now) {
  workers_[size_t(local_rank)].pid = pid;
  workers_[size_t(local_rank)].started = now;
  const auto waits = [](const Worker& w) { return w.pid == 0; };
  if (std::any_of(workers_.begin(), workers_.end(), waits)) return;
  for (int i = 0; i < spec_.nproc_per_node; ++i) log_worker("START", i);
}

void JobRecord::ended(int local_rank, const ExitStatus& status, bool after_stop, MonoTime now) {
  Worker& w = workers_[size_t(local_rank)];
  w.status = status;
  w.ended = round_begun_ = now;  // the next one begins where this one ends
  w.ended_unix = std::time(nullptr);
  // A worker that crashes while it is being stopped still crashed by itself.
  w.stopped_by_dtrain = after_stop && !is_crash(status);
  const bool killed = status.kind == ExitStatus::Kind::signaled && status.code == SIGKILL;
  if (killed) w.oom = judge_oom(status, w.stopped_by_dtrain, memory_before_, read_oom_counts(cgroup_folder_));
}

void JobRecord::output(int stream, std::string_view bytes) {
  if (stream % 2 == 1) workers_[size_t(stream / 2)].tail.add(bytes);
}

std::vector<WorkerNow> JobRecord::workers_now(MonoTime now) const {
  std::vector<WorkerNow> all;
  for (int i = 0; i < spec_.nproc_per_node && place_.node_rank >= 0; ++i) {
    const Worker& w = workers_[size_t(i)];
    const auto age = w.pid == 0 ? Duration{} : Duration((w.status ? w.ended : now) - w.started);
    all.push_back({i, place_.base_rank + i, w.pid,
                   w.status     ? describe(*w.status)
                   : w.pid == 0 ? "not started yet"
                                : "running",
                   std::chrono::duration_cast<std::chrono::milliseconds>(age)});
  }
  return all;
}

WorkerEnd JobRecord::end_of(int local_rank) const {
  const Worker& w = workers_[size_t(local_rank)];
  WorkerEnd end;
  end.local_rank = local_rank;
  end.rank = place_.base_rank + local_rank;
  end.host = spec_.torchrun_report ? torchruns_hostname_ : hostname_;
  end.pid = w.pid;
  end.status = *w.status;
  end.ended = w.ended;
  end.ended_unix = w.ended_unix;
  end.ended_text = local_time(w.ended_unix);
  if (w.pid != 0) end.ran = w.ended - w.started;
  end.stopped_by_dtrain = w.stopped_by_dtrain;
  end.last_lines = w.tail.lines();
  end.error = read_error_file(w.paths.error_file);
  if (end.error) end.error_path = w.paths.error_file;
  if (end.error && end.error->timestamp) end.error_text = local_time(*end.error->timestamp);
  end.oom = w.oom;
  if (w.status->core) {
    end.core_path = find_core({w.pid, w.status->code, base_name(spec_.argv[0]), current_folder(), kernel_hostname()});
  }
  end.log_path = w.paths.err.empty() ? w.paths.out : w.paths.err;
  return end;
}

// What ended the job happened on this node.
bool JobRecord::ended_here(const Outcome& outcome) const {
  return !outcome.verdict || (place_.node_rank >= 0 && outcome.verdict->node_rank == place_.node_rank);
}

FailureFacts JobRecord::facts(const Outcome& outcome) const {
  FailureFacts facts;
  facts.run_id = spec_.run_id;
  facts.program = spec_.program;
  facts.reason = outcome.reason;
  facts.restarts = outcome.restarts;
  facts.max_restarts = spec_.max_restarts;
  facts.world_size = place_.world_size;
  for (int i = 0; i < spec_.nproc_per_node; ++i) {
    const Worker& w = workers_[size_t(i)];
    // Spawns that were called off because another one failed never were anything.
    const bool called_off =
        w.status && w.status->kind == ExitStatus::Kind::not_started && w.status->step == SpawnStep::none;
    if (w.status && !w.status->success() && !called_off) facts.workers.push_back(end_of(i));
  }
  const WorkerEnd* first = first_failure(facts);
  switch (outcome.cause) {
    case StopCause::success:
      facts.exit_code = 0;
      break;
    case StopCause::failure:
      facts.exit_code = exit_code_of(first != nullptr ? first->status : outcome.first_status);
      break;
    case StopCause::stop_signal:
      facts.exit_code = 128 + outcome.stop_signal;
      break;
    case StopCause::guard_lost:
    case StopCause::other_node:
      facts.exit_code = kExitOwnFailure;
      break;
  }
  if (outcome.verdict) {
    facts.exit_code = outcome.verdict->exit_code;
    if (outcome.cause == StopCause::failure && !ended_here(outcome)) facts.failed_elsewhere = outcome.verdict->reason;
  }
  if (outcome.cause == StopCause::failure && spec_.torchrun_report) facts.exit_code = 1;
  return facts;
}

// Returns where it is, or why it is nowhere; empty if nobody asked for a file.
std::string JobRecord::save_json(const std::string& json, bool first_hand, const LogTree& logs) const {
  const bool has_folder = !logs.path().empty() && (!spec_.log_dir.empty() || spec_.tee.any() || spec_.redirects.any());
  std::string said;
  const auto save = [&](const std::string& path, bool must) {
    const auto written = path.empty() ? Result<bool>(false) : write_report_file(path, json, must, begun_at_);
    if (!written) said += "dtrain: " + written.error().message + "\n";
    if (written && *written) said += "dtrain: report in " + path + "\n";
  };
  save(has_folder ? logs.path() + "/report.json" : std::string(), true);
  save(spec_.report_path, first_hand);
  return said;
}

// torchrun's rule for a launcher that is itself a worker: its own error file gets that of its first failure.
void JobRecord::tell_parent(const FailureFacts& facts) {
  const char* path = std::getenv("TORCHELASTIC_ERROR_FILE");
  const WorkerEnd* first = first_failure(facts);
  if (path == nullptr || *path == 0 || first == nullptr) return;
  const auto own = read_regular_file(first->error_path, kErrorFileCopyLimit);
  const std::string json = error_file_for_parent(own ? *own : "", describe(first->status), first->ended_unix,
                                                 python_exit_code(first->status));
  const auto written = write_whole_file("the error file", path, json);
  if (!written) note_("dtrain: " + written.error().message);
}

// torchrun speaks of a round as the one before until its workers run.
void JobRecord::log_round(const Assignment& next) {
  Event event;
  event.restarts = next.restart_count;
  event.assignment = assignment_;
  event.duration_ms = std::chrono::duration<double, std::milli>(clock_.now() - round_begun_).count();
  event.state = "RENDEZVOUS";
  log_event(event);
  event.duration_ms = 0;  // the ranks come with the round
  event.state = "ASSIGN_WORKER_RANKS";
  log_event(event);
  assignment_ = next;
}

void JobRecord::log_event(Event event) {
  if (!spec_.event_log) return;
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  event.timestamp_ms = std::chrono::duration_cast<std::chrono::milliseconds>(since_1970).count();
  event.total_run_time_s = std::chrono::duration_cast<std::chrono::seconds>(clock_.now() - begun_).count();
  note_(
      event_line({spec_.run_id, spec_.role, torchruns_hostname_, spec_.rdzv_backend, base_name(spec_.argv[0])}, event));
}

void JobRecord::log_worker(const char* state, int local_rank) {
  const Worker& w = workers_[size_t(local_rank)];
  Event event;
  event.state = state;
  event.assignment = assignment_;
  if (assignment_) event.restarts = assignment_->restart_count;
  event.worker = EventWorker{local_rank, w.pid, std::nullopt, ""};
  if (w.status && !w.status->success()) {
    event.worker->exit_code = python_exit_code(*w.status);
    event.worker->raw_error = error_file_json(read_error_file(w.paths.error_file));
  }
  log_event(event);
}

// A worker that ended well in a job that failed was called off, in torchrun's words.
void JobRecord::log_end(const Outcome& outcome) {
  if (!spec_.event_log) return;
  const bool good = outcome.cause == StopCause::success;
  for (int i = 0; i < spec_.nproc_per_node; ++i) {
    const bool failed = workers_[size_t(i)].status && !workers_[size_t(i)].status->success();
    log_worker(failed ? "FAILED" : good ? "SUCCEEDED" : "TERMINATED", i);
  }
  Event event;
  event.state = good ? "SUCCEEDED" : "FAILED";
  event.assignment = assignment_;
  event.restarts = outcome.restarts;
  log_event(event);
}

int JobRecord::conclude(const std::optional<Outcome>& outcome, const LogTree& logs) {
  if (!outcome || front_lost_) return kExitOwnFailure;
  log_end(*outcome);
  if (outcome->cause == StopCause::success) return 0;
  const FailureFacts all = facts(*outcome);
  const std::string saved = save_json(report_json(all), ended_here(*outcome), logs);
  if (!saved.empty()) note_(saved);
  tell_parent(all);
  const bool as_torchrun = spec_.torchrun_report && !all.workers.empty();
  if (outcome->cause == StopCause::failure)
    note_(as_torchrun ? torchrun_report_text(all) : report_text(all, {color_on_stderr_}));
  else
    note_("dtrain: " + outcome->reason);
  return all.exit_code;
}

}  // namespace dtrain::launcher
