#include "launcher/report/failure_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "launcher/base/readable.h"
#include "launcher/evidence/json_text.h"
#include "launcher/evidence/report_lines.h"
#include "launcher/terminal/wants_color.h"

namespace dtrain::launcher {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr size_t kTracebackLines = 30;  // the last lines are shown: the exception is at the end

std::vector<Fate> fates_of(const FailureFacts& facts) {
  std::vector<Fate> fates;
  for (const WorkerEnd& worker : facts.workers) fates.push_back(fate_of(worker));
  return fates;
}

void add_lines(std::string& report, const std::string& title, const std::vector<std::string>& lines, size_t limit) {
  report += "  " + title + ":\n";
  size_t from = lines.size() > limit ? lines.size() - limit : 0;
  if (from > 0) report += fmt::format("    ... ({} lines before)\n", from);
  for (size_t i = from; i < lines.size(); ++i) report += "    " + report_line(lines[i]) + "\n";
}

std::string when(const WorkerEnd& worker) {
  return worker.pid == 0 ? "" : fmt::format(", after {}", readable_duration(worker.ran));
}

// What the worker said: the exception if it left one, else the end of its stderr.
void add_last_words(std::string& report, const WorkerEnd& worker) {
  const ErrorFile* error = worker.error ? &*worker.error : nullptr;
  // The exception is on stderr as well; once is enough. An exception of a single line is the headline.
  bool told = false;
  if (error && !error->traceback.empty()) {
    add_lines(report, "exception", lines_of(error->traceback), kTracebackLines);
    told = true;
  } else if (error && error->message.find('\n') != std::string::npos) {
    add_lines(report, "exception", lines_of(error->message), kTracebackLines);
    told = true;
  }
  if (error && !error->note.empty()) report += "  note: " + plain_line(error->note) + "\n";
  if (!told && !worker.last_lines.empty()) {
    add_lines(report, "last lines of stderr", worker.last_lines, worker.last_lines.size());
  }
}

// How the worker to blame ended, for the headline.
std::string how(const WorkerEnd& worker, const Blame& accusation) {
  return worker.exception.empty() ? describe_cause(fate_of(worker), accusation) : report_line(worker.exception);
}

void add_first(std::string& report, const WorkerEnd& worker, const FailureFacts& facts, ReportStyle style) {
  std::string headline = fmt::format("first failure: rank {}: {}", worker.rank, headline_of(facts));
  if (worker.oom.oom) headline += ", out of memory";
  report += (style.color ? colored("1;31", headline) : headline) + "\n";
  report += "  program: " + report_line(facts.program) + "\n";
  report += fmt::format("  where: host {}, local rank {}", plain_line(worker.host), worker.local_rank);
  if (worker.pid != 0) report += fmt::format(", pid {}", worker.pid);
  report += fmt::format("\n  when: {}{}", worker.ended_text, when(worker));
  // Where the headline is an exception, the exit code or signal stands here.
  if (!worker.exception.empty()) report += fmt::format(", {}", describe(worker.status));
  report += "\n";
  if (worker.told.blame.rank >= 0)
    report += fmt::format("  blames: rank {}{}{}\n", worker.told.blame.rank,
                          worker.told.blame.what.empty() ? "" : ", which ", report_line(worker.told.blame.what));
  add_last_words(report, worker);
  if (worker.oom.oom) report += "  memory: " + plain_line(worker.oom.evidence) + "\n";
  if (!worker.core_path.empty()) report += "  core: " + plain_line(worker.core_path) + "\n";
  if (!worker.log_path.empty()) report += "  log: " + plain_line(worker.log_path) + "\n";
  if (std::string hint = hint_for(worker); !hint.empty()) report += "  hint: " + hint + "\n";
}

std::string in_brackets(const WorkerEnd& worker) {
  const bool stopped = worker.told.stopped && worker.status.kind == ExitStatus::Kind::signaled;
  return stopped ? signal_name(worker.status.code) : describe(worker.status);
}

// Why a worker that is not to blame ended: workers with the same text share a line. Empty: the worker needs its own
// line.
std::string consequence(const WorkerEnd& worker) {
  if (worker.told.stopped) return fmt::format("stopped by dtrain ({})", in_brackets(worker));
  if (worker.told.blame.rank >= 0)
    return fmt::format("failed because of rank {} ({})", worker.told.blame.rank, in_brackets(worker));
  if (worker.told.blame.rank == Blame::kSomebody)
    return fmt::format("failed because another rank had gone ({})", in_brackets(worker));
  return "";
}

// Adds the workers that are not to blame, one line for each way to end: "ranks 0-2,4: stopped by dtrain (SIGTERM)".
// Workers that had ended with 0 before the first failure come first: the others may have needed them.
void add_others(std::string& report, const FailureFacts& facts) {
  const std::vector<const WorkerEnd*> failed = failures(facts);
  const WorkerEnd* first = failed.empty() || !facts.failed_elsewhere.empty() ? nullptr : failed.front();
  const WorkerEnd* counts = failure_that_counts(facts);
  std::vector<int> had_ended;
  std::map<std::string, std::vector<int>> ranks_by_end;
  for (const WorkerEnd& worker : facts.workers) {
    if (&worker == first) continue;
    if (worker.status.success()) {
      if (counts != nullptr && !worker.told.stopped && worker.ended <= counts->ended) had_ended.push_back(worker.rank);
    } else if (const std::string why = consequence(worker); !why.empty()) {
      ranks_by_end[why].push_back(worker.rank);
    }
  }
  if (!had_ended.empty()) report += fmt::format("  {}: had ended with exit code 0 before\n", fold_ranks(had_ended));
  for (const auto& [why, ranks] : ranks_by_end) report += fmt::format("  {}: {}\n", fold_ranks(ranks), why);
  for (const WorkerEnd* worker : failed) {
    if (worker == first || !consequence(*worker).empty()) continue;
    const std::string pid = worker->pid == 0 ? "" : fmt::format(", pid {}", worker->pid);
    report += fmt::format("  rank {} (host {}{}): {}{}{}\n", worker->rank, plain_line(worker->host), pid,
                          how(*worker, {}), worker->oom.oom ? ", out of memory" : "", when(*worker));
  }
}

// The first lines. They leave out what the headline says.
std::string beginning(const FailureFacts& facts) {
  const WorkerEnd* first = facts.failed_elsewhere.empty() ? first_failure(facts) : nullptr;
  const auto root = root_cause(fates_of(facts), facts.accused);
  std::string text = fmt::format("dtrain: job {} failed", plain_line(facts.run_id));
  const bool same = first != nullptr && facts.world_size == 1 && first->status == ExitStatus::exited(facts.exit_code);
  text += same ? "\n" : fmt::format(", exit code {}\n", facts.exit_code);
  const bool told = first != nullptr && facts.reason == fmt::format("local rank {}: {}", first->local_rank,
                                                                    describe_cause(fate_of(*first), root->accusation));
  if (!facts.reason.empty() && facts.failed_elsewhere.empty() && !told) text += "  " + plain_line(facts.reason) + "\n";
  return text;
}

OrderedJson status_json(const ExitStatus& status) {
  OrderedJson result;
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

OrderedJson worker_json(const WorkerEnd& worker) {
  OrderedJson result;
  result["rank"] = worker.rank;
  result["local_rank"] = worker.local_rank;
  result["host"] = worker.host;
  result["pid"] = worker.pid == 0 ? OrderedJson(nullptr) : OrderedJson(worker.pid);
  result["status"] = status_json(worker.status);
  result["ended"] = worker.ended_text;
  result["ran_s"] = static_cast<double>(std::chrono::round<std::chrono::milliseconds>(worker.ran).count()) / 1000;
  result["stopped_by_dtrain"] = worker.told.stopped;
  result["last_lines"] = worker.last_lines;
  result["exception"] = text_or_null(worker.exception);
  result["because_of"] = worker.told.blame.rank >= 0 ? OrderedJson(worker.told.blame.rank) : OrderedJson(nullptr);
  result["error_file"] = nullptr;
  if (worker.error) {
    OrderedJson& error = result["error_file"] = OrderedJson::object();
    error["message"] = text_or_null(worker.error->message);
    error["traceback"] = text_or_null(worker.error->traceback);
    error["timestamp"] = worker.error->timestamp ? OrderedJson(*worker.error->timestamp) : OrderedJson(nullptr);
    error["note"] = text_or_null(worker.error->note);
  }
  result["out_of_memory"] = text_or_null(worker.oom.oom ? worker.oom.evidence : "");
  result["core"] = text_or_null(worker.core_path);
  result["log"] = text_or_null(worker.log_path);
  result["hint"] = text_or_null(hint_for(worker));
  return result;
}

}  // namespace

std::vector<const WorkerEnd*> failures(const FailureFacts& facts) {
  const std::vector<Fate> fates = fates_of(facts);
  const auto root = root_cause(fates, facts.accused);
  if (!root) return {};
  std::vector<size_t> order;
  for (size_t i = 0; i < fates.size(); ++i) {
    if (i == root->at || fates[i].failed_itself()) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const auto key = [&](size_t i) { return std::tuple(i != root->at, fates[i].told.since, fates[i].rank); };
    return key(a) < key(b);
  });
  std::vector<const WorkerEnd*> ends;
  ends.reserve(order.size());
  for (const size_t i : order) ends.push_back(&facts.workers[i]);
  return ends;
}

const WorkerEnd* first_failure(const FailureFacts& facts) {
  const auto root = root_cause(fates_of(facts), facts.accused);
  return root ? &facts.workers[root->at] : nullptr;
}

const WorkerEnd* failure_that_counts(const FailureFacts& facts) {
  const auto root = root_cause(fates_of(facts), facts.accused);
  return root ? &facts.workers[root->failed] : nullptr;
}

std::string headline_of(const FailureFacts& facts) {
  const auto root = root_cause(fates_of(facts), facts.accused);
  return root ? how(facts.workers[root->at], root->accusation) : "";
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
      // If there was an exception, it has told what happened.
      return status.core || !worker.exception.empty() ? "" : "for a core dump: ulimit -c unlimited";
    default:
      return "";
  }
}

std::string report_text(const FailureFacts& facts, ReportStyle style) {
  std::string report = beginning(facts);
  if (facts.max_restarts > 0) report += fmt::format("  {} of {} restarts used\n", facts.restarts, facts.max_restarts);
  add_others(report, facts);
  if (!facts.failed_elsewhere.empty()) {
    report += "first failure: " + plain_line(facts.failed_elsewhere) + "; the report is on that node\n";
  } else if (const WorkerEnd* first = first_failure(facts); first != nullptr) {
    add_first(report, *first, facts, style);
  }
  return report;
}

std::string report_json(const FailureFacts& facts) {
  OrderedJson report;
  report["schema"] = 1;
  report["job"] = facts.run_id;
  report["program"] = facts.program;
  report["exit_code"] = facts.exit_code;
  report["reason"] = facts.reason;
  report["restarts"] = facts.restarts;
  report["max_restarts"] = facts.max_restarts;
  report["world_size"] = facts.world_size;
  const std::vector<const WorkerEnd*> failed = failures(facts);
  const bool here = facts.failed_elsewhere.empty();
  report["first_failure"] = failed.empty() || !here ? OrderedJson(nullptr) : worker_json(*failed.front());
  if (!here) report["failed_elsewhere"] = facts.failed_elsewhere;
  report["other_failures"] = OrderedJson::array();
  for (size_t i = here ? 1 : 0; i < failed.size(); ++i) report["other_failures"].push_back(worker_json(*failed[i]));
  report["stopped_by_dtrain"] = OrderedJson::array();
  for (const WorkerEnd& worker : facts.workers) {
    const bool named = here && !failed.empty() && failed.front() == &worker;
    if (worker.told.stopped && !worker.status.success() && !named)
      report["stopped_by_dtrain"].push_back(worker_json(worker));
  }
  return report.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace dtrain::launcher
