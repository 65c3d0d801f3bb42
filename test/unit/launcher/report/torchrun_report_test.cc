// The expected texts of the first two cases are what torch 2.15's ChildFailedError prints for the same facts, but for
// the lines that torchrun does not have.
#include "launcher/report/torchrun_report.h"

#include <cerrno>
#include <csignal>

#include "test/support/catch.h"
#include "test/support/golden.h"

namespace dtrain::launcher {
namespace {

WorkerEnd worker_of(int rank, ExitStatus status, int ended_s) {
  WorkerEnd end;
  end.rank = rank;
  end.local_rank = rank % 8;
  end.host = "node4";
  end.pid = 1230 + rank;
  end.status = status;
  end.ended = end.told.since = MonoTime{} + std::chrono::seconds(ended_s);
  end.ended_unix = 1'795'246'790 + ended_s;
  end.ended_text = "2026-11-21 07:39:1" + std::to_string(ended_s);
  return end;
}

FailureFacts facts_with(std::vector<WorkerEnd> workers, std::string program = "fail.py") {
  FailureFacts facts;
  facts.run_id = "job-1";
  facts.program = std::move(program);
  facts.exit_code = 1;
  facts.workers = std::move(workers);
  return facts;
}

}  // namespace

TEST_CASE("torchrun's report: an exception, and a worker that was stopped for it") {
  WorkerEnd stopped = worker_of(0, ExitStatus::signaled(SIGTERM, false), 9);
  stopped.told.stopped = true;
  WorkerEnd failed = worker_of(1, ExitStatus::exited(1), 8);
  failed.error = ErrorFile{"RuntimeError: boom",
                           "Traceback (most recent call last):\n  File \"fail.py\", line 3, in main\n"
                           "    raise RuntimeError(\"boom\")\nRuntimeError: boom\n",
                           1'795'246'798, ""};
  failed.error_path = "/tmp/torchelastic_x/none_y/attempt_0/1/error.json";
  failed.error_text = "2026-11-21 07:39:18";
  failed.last_lines = {"RuntimeError: boom"};
  test::check_golden("report/torchrun_exception.txt", torchrun_report_text(facts_with({stopped, failed})));
}

TEST_CASE("torchrun's report: one failure alone, with what torchrun would not tell") {
  WorkerEnd failed = worker_of(9, ExitStatus::exited(3), 1);
  failed.last_lines = {"epoch 3", "\x1b[31mno space left\x1b[0m"};
  test::check_golden("report/torchrun_alone.txt", torchrun_report_text(facts_with({failed})));
}

TEST_CASE("torchrun's report: a signal, several failures, the first by time is the root cause") {
  WorkerEnd crash = worker_of(3, ExitStatus::signaled(SIGSEGV, true), 2);
  crash.core_path = "/home/user/core.1233";
  WorkerEnd late = worker_of(1, ExitStatus::exited(1), 4);
  late.last_lines = {"not shown"};
  WorkerEnd killed = worker_of(2, ExitStatus::signaled(SIGKILL, false), 3);
  killed.told.stopped = true;
  test::check_golden("report/torchrun_crash.txt", torchrun_report_text(facts_with({late, killed, crash})));
}

TEST_CASE("torchrun's report is as wide as its longest line, at most 60 characters") {
  auto width = [](const std::string& host, const std::string& program) {
    WorkerEnd failed = worker_of(0, ExitStatus::signaled(SIGABRT, false), 1);
    failed.status.core = true;  // no hint
    failed.host = host;
    failed.pid = 1;
    std::string text = torchrun_report_text(facts_with({failed}, program));
    return text.find('\n', text.find("====")) - text.find("====");
  };
  const size_t traceback = std::string("  traceback : Signal 6 (SIGABRT) received by PID 1").size();
  CHECK(width("h", "p") == traceback);
  CHECK(width("h", std::string(46, 'p')) == 46 + std::string(" FAILED").size());
  CHECK(width("h", std::string(200, 'p')) == 60);
  std::string letters;
  for (int i = 0; i < 38; ++i) letters += "\xc3\xa9";  // as wide as 38, as long as 76
  CHECK(width(letters, "p") == std::string("  host      : ").size() + 38);
}

TEST_CASE("torchrun's report: a program that never started, and nothing to report") {
  WorkerEnd failed = worker_of(0, ExitStatus::not_started(SpawnStep::exec, ENOENT), 1);
  failed.pid = 0;
  std::string text = torchrun_report_text(facts_with({failed}));
  CHECK(text.find("  exitcode  : 127 (pid: 0) \n") != std::string::npos);
  CHECK(text.find("  traceback : not started: exec: No such file or directory\n") != std::string::npos);
  CHECK(torchrun_report_text(facts_with({})).empty());
}

}  // namespace dtrain::launcher
