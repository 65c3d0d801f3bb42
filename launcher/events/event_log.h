#pragma once
// The events that --event-log-handler console writes to stderr: one line of JSON each, with torchrun's names and keys.
// Pure: facts in, text out; job_events.h knows which event comes when.
#include <cstdint>
#include <optional>
#include <string>

#include "launcher/job/worker_env.h"

namespace dtrain::launcher {

// The fields that are the same in every event of a job.
struct EventSource {
  std::string run_id;
  std::string role;
  std::string hostname;
  std::string rdzv_backend;
  std::string entry_point;  // the base name of what the workers execute
};

// The worker that an event is about.
struct EventWorker {
  int local_rank = 0;
  int pid = 0;
  std::optional<int> exit_code;  // of a failed one; -n for signal n
  std::string raw_error;         // JSON; empty: none
};

struct Event {
  std::string state;                     // RENDEZVOUS, ASSIGN_WORKER_RANKS, START, SUCCEEDED, FAILED, TERMINATED
  int64_t timestamp_ms = 0;              // since 1970
  std::optional<Assignment> assignment;  // of the round; none before the first is complete
  int restarts = 0;
  int64_t total_run_time_s = 0;
  std::optional<double> duration_ms;  // of what an event of the agent is about
  std::optional<EventWorker> worker;  // none: the event is the agent's
};

// One line, without its end. Bytes that are not UTF-8 become U+FFFD.
std::string event_line(const EventSource& source, const Event& event);

}  // namespace dtrain::launcher
