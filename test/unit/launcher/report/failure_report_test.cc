#include "launcher/failure_report.h"

#include <cerrno>
#include <csignal>
#include <limits>
#include <nlohmann/json.hpp>

#include "test/support/catch.h"
#include "test/support/golden.h"

namespace dtrain::launcher {
namespace {

using std::chrono::milliseconds;

WorkerEnd worker(int rank, ExitStatus status, int ended_ms) {
  WorkerEnd end;
  end.rank = rank;
  end.local_rank = rank;
  end.host = "node4";
  end.pid = 1230 + rank;
  end.status = status;
  end.ended = MonoTime{} + milliseconds(ended_ms);
  end.ended_unix = 1'795'246'790 + ended_ms / 1000;
  end.ended_text = "2026-11-21 10:30:01";
  end.ran = milliseconds(ended_ms);
  return end;
}

WorkerEnd victim(int rank, int signal) {
  WorkerEnd end = worker(rank, ExitStatus::signaled(signal, false), 13000);
  end.stopped_by_dtrain = true;
  return end;
}

FailureFacts facts_with(std::vector<WorkerEnd> workers, int exit_code) {
  FailureFacts facts;
  facts.run_id = "digits-1";
  facts.program = "./train";
  facts.exit_code = exit_code;
  facts.world_size = static_cast<int>(workers.size());
  facts.workers = std::move(workers);
  return facts;
}

void check_report(const std::string& name, const FailureFacts& facts) {
  test::check_golden("report/" + name + ".txt", report_text(facts));
  test::check_golden("report/" + name + ".json", report_json(facts));
}

}  // namespace

TEST_CASE("report: a crash with last words, victims and a late failure") {
  WorkerEnd crash = worker(3, ExitStatus::signaled(SIGSEGV, true), 12345);
  crash.last_lines = {"epoch 3", "Segmentation fault in step 17", "\x1b[31mred\x1b[0m\ttab"};
  crash.core_path = "/home/user/core.1233";
  crash.log_path = "/tmp/dtrain_x/digits-1_abcdefgh/attempt_0/3/stderr.log";
  FailureFacts facts = facts_with({victim(0, SIGTERM), victim(1, SIGTERM), victim(2, SIGTERM), crash,
                                   victim(4, SIGTERM), worker(5, ExitStatus::exited(1), 12500), victim(6, SIGKILL)},
                                  139);
  facts.reason = "rank 3 failed";
  facts.restarts = 2;
  facts.max_restarts = 2;
  check_report("crash", facts);
}

TEST_CASE("report: a Python exception from the error file") {
  WorkerEnd failed = worker(1, ExitStatus::exited(1), 800);
  failed.last_lines = {"Traceback (most recent call last):", "RuntimeError: boom"};
  failed.error = ErrorFile{"RuntimeError: boom",
                           "Traceback (most recent call last):\n  File \"train.py\", line 3, in main\n"
                           "    raise RuntimeError(\"boom\")\nRuntimeError: boom\n",
                           1'795'246'790, ""};
  check_report("python_exception", facts_with({victim(0, SIGTERM), failed}, 1));
}

TEST_CASE("report: an out-of-memory kill") {
  WorkerEnd killed = worker(0, ExitStatus::signaled(SIGKILL, false), 65'000);
  killed.oom = {true, "the kernel's out-of-memory killer ended 1 process in the job's cgroup, limit 1.2 GiB"};
  check_report("out_of_memory", facts_with({killed}, 137));
}

TEST_CASE("report: a program that never started") {
  WorkerEnd failed = worker(0, ExitStatus::not_started(SpawnStep::exec, ENOENT), 3);
  failed.pid = 0;
  check_report("not_started", facts_with({failed}, 127));
}

TEST_CASE("report: an error file that is no JSON leaves the last lines") {
  WorkerEnd failed = worker(0, ExitStatus::exited(2), 50);
  failed.error = ErrorFile{"", "", {}, "the error file is not valid JSON"};
  failed.last_lines = {"usage: train"};
  check_report("bad_error_file", facts_with({failed}, 2));
}

TEST_CASE("report: nobody failed by itself") {
  FailureFacts facts = facts_with({victim(0, SIGTERM), victim(1, SIGTERM)}, 143);
  facts.reason = "stopped by SIGTERM";
  CHECK(first_failure(facts) == nullptr);
  check_report("stopped", facts);
}

TEST_CASE("the first failure is the earliest, unless an error file proves an earlier exception") {
  WorkerEnd early = worker(0, ExitStatus::exited(1), 10'200);
  WorkerEnd late = worker(1, ExitStatus::exited(1), 13'900);
  CHECK(first_failure(facts_with({late, early}, 1))->rank == 0);

  late.error = ErrorFile{"boom", "", late.ended_unix - 5, ""};
  CHECK(first_failure(facts_with({late, early}, 1))->rank == 1);

  // The same second proves nothing; a timestamp in the future or from another age is a wrong clock.
  early = worker(0, ExitStatus::exited(1), 10'200);
  late = worker(1, ExitStatus::exited(1), 10'900);
  for (int64_t offset : {int64_t{0}, int64_t{100}, -int64_t{1'000'000'000}}) {
    late.error = ErrorFile{"boom", "", late.ended_unix + offset, ""};
    CHECK(first_failure(facts_with({late, early}, 1))->rank == 0);
  }
  // A program writes what it likes there.
  for (int64_t time : {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()}) {
    late.error = ErrorFile{"boom", "", time, ""};
    CHECK(first_failure(facts_with({late, early}, 1))->rank == 0);
  }
}

TEST_CASE("long lines and long tracebacks are cut, with the count of what is missing") {
  WorkerEnd failed = worker(0, ExitStatus::exited(1), 50);
  failed.last_lines = {std::string(1000, 'x')};
  CHECK(report_text(facts_with({failed}, 1)).find(std::string(400, 'x') + " ... (600 more bytes)\n") !=
        std::string::npos);
  std::string traceback;
  for (int i = 0; i < 100; ++i) traceback += "line " + std::to_string(i) + "\n";
  failed.error = ErrorFile{"m", traceback, {}, ""};
  std::string text = report_text(facts_with({failed}, 1));
  CHECK(text.find("... (70 lines before)\n    line 70\n") != std::string::npos);
  CHECK(text.find("line 69") == std::string::npos);
}

TEST_CASE("colour only where asked, and JSON is JSON whatever the bytes") {
  WorkerEnd failed = worker(0, ExitStatus::exited(1), 50);
  failed.last_lines = {"\xff\xfe\x80 bytes", std::string("nul\0", 4)};
  FailureFacts facts = facts_with({failed}, 1);
  CHECK(report_text(facts).find('\x1b') == std::string::npos);
  CHECK(report_text(facts, {.color = true}).find("\x1b[1;31mfirst failure: rank 0: exit code 1\x1b[0m\n") !=
        std::string::npos);
  auto parsed = nlohmann::json::parse(report_json(facts));
  CHECK(parsed["first_failure"]["last_lines"].size() == 2);
}

TEST_CASE("hints fit the end") {
  CHECK(hint_for(worker(0, ExitStatus::exited(1), 0)).empty());
  CHECK(hint_for(worker(0, ExitStatus::signaled(SIGTERM, false), 0)).empty());
  CHECK(hint_for(worker(0, ExitStatus::signaled(SIGBUS, false), 0)).find("/dev/shm") != std::string::npos);
  CHECK(hint_for(worker(0, ExitStatus::signaled(SIGSEGV, true), 0)).empty());
  CHECK(hint_for(worker(0, ExitStatus::signaled(SIGSEGV, false), 0)).find("ulimit") != std::string::npos);
}

}  // namespace dtrain::launcher
