#include "launcher/events/job_events.h"

#include <chrono>
#include <utility>

namespace dtrain::launcher {
namespace {

bool has_failed(const WorkerRow& row) { return row.end && !row.end->status.success(); }

}  // namespace

std::string JobEvents::line(Event event, Moment now) const {
  event.timestamp_ms = now.unix_ms;
  event.total_run_time_s = std::chrono::duration_cast<std::chrono::seconds>(now.at - job_began_).count();
  return event_line(source_, event);
}

std::string JobEvents::line_of_worker(const std::string& state, const WorkerTable& workers, const WorkerRow& row,
                                      Moment now) const {
  Event event;
  event.state = state;
  event.assignment = workers.place();
  if (event.assignment) event.restarts = event.assignment->restart_count;
  event.worker = EventWorker{row.local_rank, row.pid, std::nullopt, ""};
  if (has_failed(row)) {
    event.worker->exit_code = python_exit_code(row.end->status);
    event.worker->raw_error = error_file_json(row.end->error);
  }
  return line(std::move(event), now);
}

JobEvents::Lines JobEvents::round_began(const WorkerTable& before, const Assignment& next, Moment now) const {
  const MonoTime rendezvous_began = before.last_end().value_or(job_began_);
  Event event;
  event.restarts = next.restart_count;
  event.assignment = before.place();
  event.state = "RENDEZVOUS";
  event.duration_ms = std::chrono::duration<double, std::milli>(now.at - rendezvous_began).count();
  Event ranks = event;
  ranks.state = "ASSIGN_WORKER_RANKS";
  ranks.duration_ms = 0;  // the ranks come with the round
  return {line(std::move(event), now), line(std::move(ranks), now)};
}

JobEvents::Lines JobEvents::started(const WorkerTable& workers, Moment now) const {
  Lines lines;
  for (const WorkerRow& row : workers.rows()) lines.push_back(line_of_worker("START", workers, row, now));
  return lines;
}

// torchrun calls a worker that ended well in a job that failed TERMINATED.
JobEvents::Lines JobEvents::ended(const WorkerTable& workers, const Outcome& outcome, Moment now) const {
  const bool good = outcome.cause == StopCause::success;
  Lines lines;
  for (const WorkerRow& row : workers.rows()) {
    const char* state = has_failed(row) ? "FAILED" : good ? "SUCCEEDED" : "TERMINATED";
    lines.push_back(line_of_worker(state, workers, row, now));
  }
  Event event;
  event.state = good ? "SUCCEEDED" : "FAILED";
  event.assignment = workers.place();
  event.restarts = outcome.restarts;
  lines.push_back(line(std::move(event), now));
  return lines;
}

}  // namespace dtrain::launcher
