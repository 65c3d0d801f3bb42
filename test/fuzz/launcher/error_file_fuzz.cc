// Fuzzes the error file, the blame file and the progress file, which the user's program writes: whatever is in it, each
// report and each post is text that harms no terminal and JSON that can be read, and what is handed on to whoever
// started dtrain is an error file again.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "launcher/evidence/blame_file.h"
#include "launcher/evidence/error_file.h"
#include "launcher/evidence/last_exception.h"
#include "launcher/evidence/report_lines.h"
#include "launcher/progress/trainer_status.h"
#include "launcher/report/failure_report.h"
#include "launcher/report/torchrun_report.h"
#include "rendezvous/base/check.h"
#include "test/fuzz/one_line.h"

using namespace dtrain;
using namespace dtrain::launcher;
using nlohmann::json;

namespace {

bool is_json(const std::string& text) { return json::accept(text); }

FailureFacts facts_with(const ErrorFile& error, const std::string& text) {
  WorkerEnd worker;
  worker.host = "node";
  worker.pid = 7;
  worker.status = ExitStatus::exited(1);
  worker.ended_unix = 1795246790;
  worker.error = error;
  worker.error_path = "error.json";
  worker.last_lines = lines_of(text);
  worker.exception = error.message.empty() ? exception_in(worker.last_lines, worker.status) : first_line(error.message);
  worker.told.blame = parse_blame(text).value_or(blame_in(text));
  FailureFacts facts;
  facts.program = text;
  facts.workers = {worker, worker};
  facts.workers[1].rank = 1;
  return facts;
}

void check_printable(const std::string& report) {
  for (const std::string& line : lines_of(report)) DT_CHECK(!has_control_bytes(line), "a report harms no terminal");
}

}  // namespace

// The file.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const ErrorFile file = parse_error_file(text);
  DT_CHECK(file.note.empty() || (file.message.empty() && file.traceback.empty() && !file.timestamp),
           "what was not understood says nothing");

  const FailureFacts facts = facts_with(file, text);
  DT_CHECK(first_failure(facts) != nullptr, "somebody was first");
  check_printable(report_text(facts));
  check_printable(torchrun_report_text(facts));
  DT_CHECK(is_json(report_json(facts)), "programs can read the report");

  const std::string line = error_file_json(file);
  DT_CHECK(is_json(line) && line.find('\n') == std::string::npos, "one line of JSON");
  if (file.note.empty()) {
    const ErrorFile again = parse_error_file(line);
    DT_CHECK(again.message == file.message && again.traceback == file.traceback, "it says the same");
  }
  const std::string parent = error_file_for_parent(text, "exit code 1", 1795246790, 1);
  DT_CHECK(is_json(parent) && json::parse(parent)["message"]["errorCode"] == 1, "whoever started dtrain can read it");
  const auto told = parse_progress(text);
  const std::string status = trainer_status({"failed", text}, told ? &*told : nullptr, std::nullopt, "now");
  DT_CHECK(is_json(status) && status.find('\n') == std::string::npos, "Trainer can read it");
  return 0;
}
