#include "launcher/failure_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <nlohmann/json.hpp>

#include "launcher/human.h"
#include "launcher/report_lines.h"

namespace dtrain::launcher {
namespace {

using json = nlohmann::ordered_json;

constexpr size_t kTracebackLines = 30;  // the last of them: the exception is at the end

bool failed_itself(const WorkerEnd& worker) { return !worker.status.success() && !worker.stopped_by_dtrain; }

void add_lines(std::string& report, const std::string& title, const std::vector<std::string>& lines, size_t limit) {
  report += "  " + title + ":\n";
  size_t from = lines.size() > limit ? lines.size() - limit : 0;
  if (from > 0) report += fmt::format("    ... ({} lines before)\n", from);
  for (size_t i = from; i < lines.size(); ++i) report += "    " + report_line(lines[i]) + "\n";
}

std::string when(const WorkerEnd& worker) {
  return worker.pid == 0 ? "" : fmt::format(", after {}", human_duration(worker.ran));
}

// What the worker said: the exception if it left one, else the end of its stderr.
void add_last_words(std::string& report, const WorkerEnd& worker) {
  const ErrorFile* error = worker.error ? &*worker.error : nullptr;
  if (error && !error->traceback.empty()) {
    add_lines(report, "exception", lines_of(error->traceback), kTracebackLines);
  } else if (error && !error->message.empty()) {
    add_lines(report, "exception", lines_of(error->message), kTracebackLines);
  }
  if (error && !error->note.empty()) report += "  note: " + error->note + "\n";
  // The exception is on stderr as well; once is enough.
  bool told = error && !(error->traceback.empty() && error->message.empty());
  if (!told && !worker.last_lines.empty()) {
    add_lines(report, "last lines of stderr", worker.last_lines, worker.last_lines.size());
  }
}

void add_first(std::string& report, const WorkerEnd& worker, const std::string& program, ReportStyle style) {
  std::string headline = fmt::format("first failure: rank {}: {}", worker.rank, describe(worker.status));
  if (worker.oom.oom) headline += ", out of memory";
  report += style.color ? "\x1b[1;31m" + headline + "\x1b[0m\n" : headline + "\n";
  report += "  program: " + report_line(program) + "\n";
  report += fmt::format("  where: host {}, local rank {}", worker.host, worker.local_rank);
  if (worker.pid != 0) report += fmt::format(", pid {}", worker.pid);
  report += fmt::format("\n  when: {}{}\n", worker.ended_text, when(worker));
  add_last_words(report, worker);
  if (worker.oom.oom) report += "  memory: " + worker.oom.evidence + "\n";
  if (!worker.core_path.empty()) report += "  core: " + worker.core_path + "\n";
  if (!worker.log_path.empty()) report += "  log: " + worker.log_path + "\n";
  if (std::string hint = hint_for(worker); !hint.empty()) report += "  hint: " + hint + "\n";
}

// "ranks 0-2,4: stopped by dtrain (SIGTERM)", one line for each way in which they ended.
void add_victims(std::string& report, const FailureFacts& facts) {
  std::map<std::string, std::vector<int>> ranks_by_end;
  for (const WorkerEnd& worker : facts.workers) {
    if (!worker.stopped_by_dtrain) continue;
    bool signaled = worker.status.kind == ExitStatus::Kind::signaled;
    ranks_by_end[signaled ? signal_name(worker.status.code) : describe(worker.status)].push_back(worker.rank);
  }
  for (const auto& [end, ranks] : ranks_by_end) {
    report += fmt::format("  {}: stopped by dtrain ({})\n", fold_ranks(ranks), end);
  }
}

json status_json(const ExitStatus& status) {
  json result;
  result["text"] = describe(status);
  switch (status.kind) {
    case ExitStatus::Kind::exited:
      result["kind"] = "exited";
      result["exit_code"] = status.code;
      break;
    case ExitStatus::Kind::signaled:
      result["kind"] = "signaled";
      result["signal"] = status.code;
      result["signal_name"] = signal_name(status.code);
      result["core_dumped"] = status.core;
      break;
    case ExitStatus::Kind::not_started:
      result["kind"] = "not_started";
      result["step"] = step_name(status.step);
      result["errno"] = status.code;
      break;
  }
  return result;
}

json text_or_null(const std::string& text) { return text.empty() ? json(nullptr) : json(text); }

json worker_json(const WorkerEnd& worker) {
  json result;
  result["rank"] = worker.rank;
  result["local_rank"] = worker.local_rank;
  result["host"] = worker.host;
  result["pid"] = worker.pid == 0 ? json(nullptr) : json(worker.pid);
  result["status"] = status_json(worker.status);
  result["ended"] = worker.ended_text;
  result["ran_s"] = static_cast<double>(std::chrono::round<std::chrono::milliseconds>(worker.ran).count()) / 1000;
  result["stopped_by_dtrain"] = worker.stopped_by_dtrain;
  result["last_lines"] = worker.last_lines;
  result["error_file"] = nullptr;
  if (worker.error) {
    json& error = result["error_file"] = json::object();
    error["message"] = text_or_null(worker.error->message);
    error["traceback"] = text_or_null(worker.error->traceback);
    error["timestamp"] = worker.error->timestamp ? json(*worker.error->timestamp) : json(nullptr);
    error["note"] = text_or_null(worker.error->note);
  }
  result["out_of_memory"] = text_or_null(worker.oom.oom ? worker.oom.evidence : "");
  result["core"] = text_or_null(worker.core_path);
  result["log"] = text_or_null(worker.log_path);
  result["hint"] = text_or_null(hint_for(worker));
  return result;
}

}  // namespace

std::vector<const WorkerEnd*> own_failures(const FailureFacts& facts) {
  std::vector<const WorkerEnd*> failed;
  for (const WorkerEnd& worker : facts.workers) {
    if (failed_itself(worker)) failed.push_back(&worker);
  }
  // The exception's own time, as seconds before the worker's end; 0 unless the file proves that it was earlier.
  auto cause = [](const WorkerEnd& worker) {
    if (!worker.error || !worker.error->timestamp) return worker.ended;
    constexpr int64_t kDay = 24 * 3600;             // more is a wrong clock
    const int64_t time = *worker.error->timestamp;  // any number that the file has
    if (time <= worker.ended_unix - kDay || time >= worker.ended_unix) return worker.ended;
    return worker.ended - std::chrono::seconds(worker.ended_unix - 1 - time);
  };
  std::sort(failed.begin(), failed.end(), [&](const WorkerEnd* a, const WorkerEnd* b) {
    return std::pair(cause(*a), a->rank) < std::pair(cause(*b), b->rank);
  });
  return failed;
}

const WorkerEnd* first_failure(const FailureFacts& facts) {
  std::vector<const WorkerEnd*> failed = own_failures(facts);
  return failed.empty() ? nullptr : failed.front();
}

std::string hint_for(const WorkerEnd& worker) {
  const ExitStatus& status = worker.status;
  if (worker.oom.oom) return "give it more memory, or use less: a smaller batch, fewer data workers, fewer workers";
  if (status.kind == ExitStatus::Kind::not_started) {
    return status.step == SpawnStep::exec && status.code == ENOENT ? "check the program's path and its #! line" : "";
  }
  if (status.kind != ExitStatus::Kind::signaled) return "";
  switch (status.code) {
    case SIGKILL:
      return "no sign of the out-of-memory killer; someone else sent it (scheduler, container, a user)";
    case SIGBUS:
      return "often a full /dev/shm or a file that shrank while mapped: see df /dev/shm";
    case SIGILL:
      return "built for another kind of CPU?";
    case SIGSEGV:
    case SIGABRT:
    case SIGFPE:
      return status.core ? "" : "for a core dump: ulimit -c unlimited";
    default:
      return "";
  }
}

std::string report_text(const FailureFacts& facts, ReportStyle style) {
  std::vector<const WorkerEnd*> failed = own_failures(facts);
  std::string report = fmt::format("dtrain: job {} failed, exit code {}\n", facts.run_id, facts.exit_code);
  if (!facts.reason.empty() && facts.failed_elsewhere.empty()) report += "  " + facts.reason + "\n";
  if (facts.max_restarts > 0) report += fmt::format("  {} of {} restarts used\n", facts.restarts, facts.max_restarts);
  add_victims(report, facts);
  const size_t first = facts.failed_elsewhere.empty() ? 1 : 0;
  for (size_t i = first; i < failed.size(); ++i) {
    const WorkerEnd& worker = *failed[i];
    std::string pid = worker.pid == 0 ? "" : fmt::format(", pid {}", worker.pid);
    report += fmt::format("  rank {} (host {}{}): {}{}{}\n", worker.rank, worker.host, pid, describe(worker.status),
                          worker.oom.oom ? ", out of memory" : "", when(worker));
  }
  if (!facts.failed_elsewhere.empty()) {
    report += "first failure: " + facts.failed_elsewhere + "; its own report is there\n";
  } else if (!failed.empty()) {
    add_first(report, *failed.front(), facts.program, style);
  }
  return report;
}

std::string report_json(const FailureFacts& facts) {
  json report;
  report["schema"] = 1;
  report["job"] = facts.run_id;
  report["program"] = facts.program;
  report["exit_code"] = facts.exit_code;
  report["reason"] = facts.reason;
  report["restarts"] = facts.restarts;
  report["max_restarts"] = facts.max_restarts;
  report["world_size"] = facts.world_size;
  std::vector<const WorkerEnd*> failed = own_failures(facts);
  const bool here = facts.failed_elsewhere.empty();
  report["first_failure"] = failed.empty() || !here ? json(nullptr) : worker_json(*failed.front());
  if (!here) report["failed_elsewhere"] = facts.failed_elsewhere;
  report["other_failures"] = json::array();
  for (size_t i = here ? 1 : 0; i < failed.size(); ++i) report["other_failures"].push_back(worker_json(*failed[i]));
  report["stopped_by_dtrain"] = json::array();
  for (const WorkerEnd& worker : facts.workers) {
    if (worker.stopped_by_dtrain) report["stopped_by_dtrain"].push_back(worker_json(worker));
  }
  return report.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace dtrain::launcher
