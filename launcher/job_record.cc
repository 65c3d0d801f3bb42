#include "launcher/job_record.h"

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "launcher/exit_codes.h"
#include "launcher/prefix.h"

namespace dtrain::launcher {

namespace {

std::string short_hostname() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  const std::string full = name;
  return full.substr(0, full.find('.'));
}

// https://no-color.org and the habit of TERM=dumb.
bool wants_color(Color color) {
  if (color != Color::automatic) return color == Color::always;
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return ::isatty(1) == 1 && (no_color == nullptr || *no_color == 0) && term != nullptr && std::string_view(term) != "dumb";
}

}  // namespace

JobRecord::JobRecord(const JobSpec& spec)
    : spec_(spec), hostname_(short_hostname()), color_(wants_color(spec.color)), workers_(size_t(spec.nproc_per_node)) {}

std::string JobRecord::prefix(int local_rank, int rank) const {
  const std::string text = render_prefix(spec_.prefix_template, {spec_.role, local_rank, rank, hostname_});
  return color_ ? color_prefix(text, rank) : text;
}

void JobRecord::begin_round(int round, int restart_count) {
  round_ = round;
  restart_count_ = restart_count;
  stopping_ = false;
  for (Worker& w : workers_) w = Worker();
}

void JobRecord::files(int local_rank, const LogPaths& paths) { workers_[size_t(local_rank)].paths = paths; }

void JobRecord::started(int local_rank, pid_t pid, MonoTime now) {
  workers_[size_t(local_rank)].pid = pid;
  workers_[size_t(local_rank)].started = now;
}

void JobRecord::ended(int local_rank, const ExitStatus& status, MonoTime now) {
  Worker& w = workers_[size_t(local_rank)];
  w.status = status;
  w.ended = now;
  w.killed_by_dtrain = stopping_ && status.kind == ExitStatus::Kind::signaled;
}

void JobRecord::output(int stream, std::string_view bytes) {
  if (stream % 2 == 1) workers_[size_t(stream / 2)].tail.add(bytes);
}

int JobRecord::conclude(const std::optional<Outcome>& outcome, const LogTree&,
                        const std::function<void(const std::string&)>& note) {
  if (!outcome || front_lost_) return kExitOwnFailure;
  if (outcome->cause != StopCause::success) note("dtrain: " + outcome->reason);
  switch (outcome->cause) {
    case StopCause::success: return 0;
    case StopCause::failure: return exit_code_of(outcome->first_status);
    case StopCause::stop_signal: return 128 + outcome->stop_signal;
    case StopCause::guard_lost: return kExitOwnFailure;
  }
  return kExitOwnFailure;
}

}  // namespace dtrain::launcher
