#pragma once
// The events of a job in torchrun's order: which lines of event_log.h are written when. Pure: the table of workers and
// the time come in, lines go out.
#include <cstdint>
#include <string>
#include <vector>

#include "launcher/events/event_log.h"
#include "launcher/evidence/worker_table.h"
#include "launcher/job/group_core.h"
#include "rendezvous/base/clock.h"

namespace dtrain::launcher {

// One moment on two clocks.
struct Moment {
  MonoTime at{};
  int64_t unix_ms = 0;  // since 1970
};

class JobEvents {
 public:
  using Lines = std::vector<std::string>;

  JobEvents(EventSource source, MonoTime job_began) : source_(std::move(source)), job_began_(job_began) {}

  // A round is complete. `before`: the table with the round before it. torchrun names that one until the workers run.
  Lines round_began(const WorkerTable& before, const Assignment& next, Moment now) const;
  // All workers of the round have started.
  Lines started(const WorkerTable& workers, Moment now) const;
  Lines ended(const WorkerTable& workers, const Outcome& outcome, Moment now) const;

 private:
  std::string line(Event event, Moment now) const;
  std::string line_of_worker(const std::string& state, const WorkerTable& workers, const WorkerRow& row,
                             Moment now) const;

  EventSource source_;
  MonoTime job_began_;
};

}  // namespace dtrain::launcher
