#include "launcher/report/torchrun_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "launcher/evidence/report_lines.h"

namespace dtrain::launcher {
namespace {

constexpr size_t kWidest = 60;
constexpr const char* kNoTraceback = "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html";

// Lines below the first are indented by two blanks, as torchrun indents a traceback.
std::string indented(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : "\n  ") + report_line(line);
  return text;
}

// What torchrun calls the message: the exception, the signal, or the advice to enable tracebacks.
std::vector<std::string> message(const WorkerEnd& worker) {
  if (worker.error && !worker.error->traceback.empty()) return lines_of(worker.error->traceback);
  if (worker.error && !worker.error->message.empty()) return lines_of(worker.error->message);
  switch (worker.status.kind) {
    case ExitStatus::Kind::signaled:
      return {fmt::format("Signal {} ({}) received by PID {}", worker.status.code, signal_name(worker.status.code),
                          worker.pid)};
    case ExitStatus::Kind::not_started:
      return {describe(worker.status)};
    case ExitStatus::Kind::exited:
      break;
  }
  return {kNoTraceback};
}

// What torchrun does not know; it stands in the same field.
std::vector<std::string> more(const WorkerEnd& worker) {
  std::vector<std::string> lines;
  const bool told = worker.error && !(worker.error->traceback.empty() && worker.error->message.empty());
  if (worker.error && !worker.error->note.empty()) lines.push_back("note: " + worker.error->note);
  if (!told && !worker.last_lines.empty()) {
    lines.emplace_back("last lines of stderr:");
    for (const std::string& line : worker.last_lines) lines.push_back("  " + line);
  }
  if (worker.oom.oom) lines.push_back("memory: " + worker.oom.evidence);
  if (!worker.core_path.empty()) lines.push_back("core: " + worker.core_path);
  if (std::string hint = hint_for(worker); !hint.empty()) lines.push_back("hint: " + hint);
  return lines;
}

std::string time_of(const WorkerEnd& worker) {
  std::string text = worker.error_text.empty() ? worker.ended_text : worker.error_text;
  std::replace(text.begin(), text.end(), ' ', '_');
  return text;
}

// `headline`: what the worker to blame died of; empty for any other worker.
std::string entry(const WorkerEnd& worker, size_t index, const std::string& headline = "") {
  std::vector<std::string> lines = message(worker);
  const bool by_itself = !worker.status.success() && !worker.told.stopped;
  if (!headline.empty() && !by_itself) lines = {headline};
  if (!headline.empty())
    for (std::string& line : more(worker)) lines.push_back(std::move(line));
  const bool signaled = worker.status.kind == ExitStatus::Kind::signaled;
  return fmt::format(
      "[{}]:\n  time      : {}\n  host      : {}\n  rank      : {} (local_rank: {})\n"
      "  exitcode  : {} (pid: {}) {}\n  error_file: {}\n  traceback : {}",
      index, time_of(worker), plain_line(worker.host), worker.rank, worker.local_rank, python_exit_code(worker.status),
      worker.pid, signaled ? " (" + signal_name(worker.status.code) + ")" : "",
      worker.error ? plain_line(worker.error_path) : std::string("<N/A>"), indented(lines));
}

// In characters, as Python counts.
size_t widest_line(const std::string& text) {
  size_t widest = 0;
  for (const std::string& line : lines_of(text)) {
    auto begins_character = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; };
    widest = std::max(widest, static_cast<size_t>(std::count_if(line.begin(), line.end(), begins_character)));
  }
  return widest;
}

}  // namespace

std::string torchrun_report_text(const FailureFacts& facts) {
  std::vector<const WorkerEnd*> ends = failures(facts);
  const size_t own = ends.size();
  for (const WorkerEnd& worker : facts.workers)
    if (worker.told.stopped && !worker.status.success() && (own == 0 || &worker != ends[0])) ends.push_back(&worker);
  if (ends.empty()) return "";
  std::sort(ends.begin() + static_cast<std::ptrdiff_t>(own), ends.end(),
            [](const WorkerEnd* a, const WorkerEnd* b) { return a->rank < b->rank; });

  const std::string title = report_line(facts.program) + " FAILED";
  const std::string root = entry(*ends[0], 0, own > 0 ? headline_of(facts) : "");
  std::string others;
  for (size_t i = 1; i < ends.size(); ++i) others += entry(*ends[i], i) + "\n";
  const size_t width = std::min(kWidest, std::max({widest_line(title), widest_line(root), widest_line(others)}));
  const std::string border(width, '='), section(width, '-');
  return fmt::format(
             "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n{}\n{}\n{}\nFailures:\n{}{}\n"
             "Root Cause (first observed failure):\n{}\n{}\n",
             border, title, section, others.empty() ? "  <NO_OTHER_FAILURES>\n" : others, section, root, border) +
         (facts.failed_elsewhere.empty() ? "" : "dtrain: first failure: " + plain_line(facts.failed_elsewhere) + "\n");
}

}  // namespace dtrain::launcher
