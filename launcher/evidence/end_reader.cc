#include "launcher/evidence/end_reader.h"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <iterator>
#include <utility>

#include "launcher/base/host_name.h"
#include "launcher/evidence/blame_file.h"
#include "launcher/evidence/core_path.h"
#include "launcher/evidence/last_exception.h"
#include "launcher/evidence/report_lines.h"

namespace dtrain::launcher {
namespace {

constexpr size_t kExceptionLines = 500;  // of the end of stderr, in which an exception is looked for

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

std::string current_folder() {
  char path[PATH_MAX] = {};
  return ::getcwd(path, sizeof path) != nullptr ? path : "";
}

}  // namespace

EndReader::EndReader(const JobSpec& spec, std::string cgroup_folder)
    : spec_(spec),
      host_(spec.torchrun_report ? qualified_hostname() : short_hostname()),
      cgroup_folder_(std::move(cgroup_folder)) {}

void EndReader::begin_round() { memory_before_ = read_oom_counts(cgroup_folder_); }

WorkerEnd EndReader::read(const WorkerRow& row, const ExitStatus& status, bool after_stop, MonoTime now) const {
  WorkerEnd end;
  end.rank = row.rank;
  end.local_rank = row.local_rank;
  end.host = host_;
  end.pid = row.pid;
  end.status = status;
  end.ended = now;
  end.ended_unix = std::time(nullptr);
  end.ended_text = local_time(end.ended_unix);
  if (row.pid != 0) end.ran = now - row.started;
  end.log_path = row.paths.err.empty() ? row.paths.out : row.paths.err;
  // A worker that crashes while dtrain stops it still crashed by itself.
  end.told = {now, after_stop && !is_crash(status), {}};
  const bool killed = status.kind == ExitStatus::Kind::signaled && status.code == SIGKILL;
  if (killed) end.oom = judge_oom(status, end.told.stopped, memory_before_, read_oom_counts(cgroup_folder_));
  if (!status.success()) read_last_words(row, end);
  return end;
}

void EndReader::read_last_words(const WorkerRow& row, WorkerEnd& end) const {
  end.error = read_error_file(row.paths.error_file);
  if (end.error) {
    end.error_path = row.paths.error_file;
    end.told.since = time_of_cause(end.ended, end.ended_unix, *end.error);
    end.exception = first_line(end.error->message);
    if (end.error->timestamp) end.error_text = local_time(*end.error->timestamp);
  }
  if (end.exception.empty()) end.exception = exception_in(row.tail.lines(kExceptionLines), end.status);
  end.told.blame = take_blame_file(row.paths.blame);
  if (end.told.blame.rank == Blame::kNobody) end.told.blame = blame_in(end.exception);
  // Workers that have gone on without others number the ranks anew, and an accusation may be of a world that is over.
  if (spec_.survivors > 0) end.told.blame = {};
  if (end.told.blame.rank == row.rank) end.told.blame = {};  // all say whose module differs, and that rank too
  if (end.status.core) {
    const std::string program = std::filesystem::path(spec_.argv[0]).filename();
    end.core_path = find_core({end.pid, end.status.code, program, current_folder(), kernel_hostname()});
  }
}

}  // namespace dtrain::launcher
