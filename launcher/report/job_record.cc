#include "launcher/report/job_record.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <utility>

#include "launcher/base/host_name.h"
#include "launcher/base/small_file.h"
#include "launcher/evidence/report_lines.h"
#include "launcher/job/exit_codes.h"
#include "launcher/report/job_lines.h"
#include "launcher/report/job_verdict.h"
#include "launcher/report/report_file.h"
#include "launcher/report/torchrun_report.h"
#include "launcher/terminal/wants_color.h"

namespace dtrain::launcher {

JobRecord::JobRecord(const JobSpec& spec, std::string cgroup_folder, std::function<void(const std::string&)> note)
    : spec_(spec), note_(std::move(note)), ends_(spec, std::move(cgroup_folder)), workers_(spec.nproc_per_node) {
  if (!spec.event_log) return;
  const std::string host = spec.torchrun_report ? ends_.host() : qualified_hostname();
  const std::string entry_point = std::filesystem::path(spec.argv[0]).filename();
  events_.emplace(EventSource{spec.run_id, spec.role, host, spec.rdzv_backend, entry_point}, SteadyClock::now());
}

// ---- the table of workers -------------------------------------------------------------------------------------------

void JobRecord::begin_round(const Assignment& assignment) {
  if (events_) write(events_->round_began(workers_, assignment, now()));
  ends_.begin_round();
  workers_.begin_round(assignment);
}

void JobRecord::started(int local_rank, pid_t pid, MonoTime now) {
  WorkerRow& row = workers_.row(local_rank);
  row.pid = pid;
  row.started = now;
  if (events_ && !row.replaced && workers_.all_started()) write(events_->started(workers_, this->now()));
}

Testimony JobRecord::ended(int local_rank, const ExitStatus& status, bool after_stop, MonoTime now) {
  WorkerRow& row = workers_.row(local_rank);
  return row.end.emplace(ends_.read(row, status, after_stop, now)).told;
}

void JobRecord::output(int stream, std::string_view bytes) {
  WorkerRow& row = workers_.row(stream / 2);
  row.wrote = SteadyClock::now();
  if (stream % 2 == 1) row.tail.add(bytes);
}

// ---- what is written ------------------------------------------------------------------------------------------------

Moment JobRecord::now() const {
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  return {SteadyClock::now(), std::chrono::duration_cast<std::chrono::milliseconds>(since_1970).count()};
}

void JobRecord::write(const JobEvents::Lines& events) {
  for (const std::string& line : events) note_(line);
}

// Returns where the report is, or why it is nowhere; empty if nobody asked for a file.
std::string JobRecord::save_json(const std::string& json, bool first_hand, const LogTree& logs) const {
  const bool has_folder = !logs.path().empty() && (!spec_.log_dir.empty() || spec_.tee.any() || spec_.redirects.any());
  std::string said;
  const auto save = [&](const std::string& path, bool must) {
    const auto written = path.empty() ? Result<bool>(false) : write_report_file(path, json, must, begun_at_);
    if (!written) said += "dtrain: " + plain_line(written.error().message) + "\n";
    if (written && *written) said += "dtrain: report in " + plain_line(path) + "\n";
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
  const WorkerEnd& failed = *failure_that_counts(facts);
  const auto own = read_regular_file(first->error_path, kErrorFileCopyLimit);
  const std::string json =
      error_file_for_parent(own ? *own : "", headline_of(facts), first->ended_unix, python_exit_code(failed.status));
  const auto written = write_whole_file("the error file", path, json);
  if (!written) note_("dtrain: " + plain_line(written.error().message));
}

int JobRecord::conclude(const std::optional<Outcome>& outcome, const LogTree& logs) {
  if (!outcome || front_lost_) return kExitOwnFailure;
  if (events_) write(events_->ended(workers_, *outcome, now()));
  if (outcome->cause == StopCause::success) {
    if (!spec_.quiet && !spec_.torchrun_report)
      note_("dtrain: " + spec_.lead +
            plain_line(success_line(spec_, logs.path(), outcome->restarts, SteadyClock::now() - began_)));
    return 0;
  }
  const FailureFacts facts = judge(spec_, workers_, *outcome);
  const std::string saved = save_json(report_json(facts), ended_here(workers_, *outcome), logs);
  if (!saved.empty()) note_(saved);
  tell_parent(facts);
  const bool as_torchrun = spec_.torchrun_report && !facts.workers.empty();
  if (outcome->cause == StopCause::failure)
    note_(as_torchrun ? torchrun_report_text(facts) : report_text(facts, {wants_color(spec_.color, STDERR_FILENO)}));
  else
    note_("dtrain: " + spec_.lead + plain_line(outcome->reason));
  return facts.exit_code;
}

}  // namespace dtrain::launcher
