#include "launcher/report/failure_report.h"

#include <cerrno>
#include <csignal>
#include <limits>
#include <nlohmann/json.hpp>

#include "launcher/report/torchrun_report.h"
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
  end.ended = end.told.since = MonoTime{} + milliseconds(ended_ms);
  end.ended_unix = 1'795'246'790 + ended_ms / 1000;
  end.ended_text = "2026-11-21 10:30:01";
  end.ran = milliseconds(ended_ms);
  return end;
}

WorkerEnd victim(int rank, int signal) {
  WorkerEnd end = worker(rank, ExitStatus::signaled(signal, false), 13000);
  end.told.stopped = true;
  return end;
}

void leaves_error_file(WorkerEnd& end, int64_t timestamp) {
  end.error = ErrorFile{"boom", "", timestamp, ""};
  end.told.since = time_of_cause(end.ended, end.ended_unix, *end.error);
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
  failed.exception = "RuntimeError: boom";
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

TEST_CASE("report: who left with 0 is to blame, and those who needed it are consequences") {
  WorkerEnd left = worker(1, ExitStatus::exited(0), 900);
  left.last_lines = {"no more data"};
  WorkerEnd first = worker(0, ExitStatus::exited(1), 800), second = worker(2, ExitStatus::exited(1), 850);
  first.told.blame = second.told.blame = {1, true, "left the job"};
  FailureFacts facts = facts_with({first, left, second, victim(3, SIGTERM)}, 1);
  facts.reason = "local rank 1: ended with code 0 while others were in a collective";
  check_report("left", facts);
}

TEST_CASE("report: an exception of C++ is the headline") {
  WorkerEnd thrown = worker(1, ExitStatus::signaled(SIGABRT, false), 800);
  thrown.exception = "std::runtime_error: cannot read shard 17";
  thrown.error = ErrorFile{thrown.exception, "", thrown.ended_unix, ""};
  thrown.last_lines = {"terminate called after throwing an instance of 'std::runtime_error'",
                       "  what():  cannot read shard 17"};
  check_report("cpp_exception", facts_with({victim(0, SIGTERM), thrown}, 134));
}

TEST_CASE("report: a single worker's end is told once") {
  FailureFacts facts = facts_with({worker(0, ExitStatus::exited(2), 50)}, 2);
  facts.reason = "local rank 0: exit code 2";
  check_report("alone", facts);
}

TEST_CASE("report: a rank of another node is blamed, and who had ended before comes first") {
  WorkerEnd failed = worker(2, ExitStatus::exited(1), 800);
  failed.told.blame = {7, true, "died"};
  FailureFacts facts = facts_with({worker(0, ExitStatus::exited(0), 100), failed}, 1);
  CHECK(report_text(facts).find("  rank 0: had ended with exit code 0 before\n") != std::string::npos);
  CHECK(report_text(facts).find("  blames: rank 7, which died\n") != std::string::npos);
  facts.failed_elsewhere = "node 1 (host b, agent 3): rank 7 (local rank 1): exit code 3";
  CHECK(report_text(facts).find("  rank 2: failed because of rank 7 (exit code 1)\n") != std::string::npos);
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

  leaves_error_file(late, late.ended_unix - 5);
  CHECK(first_failure(facts_with({late, early}, 1))->rank == 1);

  // The same second proves nothing; a timestamp in the future or from another age is a wrong clock.
  early = worker(0, ExitStatus::exited(1), 10'200);
  late = worker(1, ExitStatus::exited(1), 10'900);
  for (int64_t offset : {int64_t{0}, int64_t{100}, -int64_t{1'000'000'000}}) {
    leaves_error_file(late, late.ended_unix + offset);
    CHECK(first_failure(facts_with({late, early}, 1))->rank == 0);
  }
  // A program writes what it likes there.
  for (int64_t time : {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()}) {
    leaves_error_file(late, time);
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

TEST_CASE("report: no text of another node, of a worker or of a path steers the terminal") {
  const std::string bad = "one\ntwo\x1b]0;title\x07";
  const auto check_plain = [](const std::string& report) {
    INFO(report);
    CHECK(report.find("one\\x0atwo\\x1b]0;title\\x07") != std::string::npos);
    for (const char c : report) CHECK((c == '\n' || static_cast<unsigned char>(c) >= 0x20));
  };
  WorkerEnd crash = worker(0, ExitStatus::signaled(SIGSEGV, true), 100);
  crash.host = crash.core_path = crash.log_path = crash.error_path = bad;
  crash.oom = {true, bad};
  crash.error.emplace();
  crash.error->note = bad;
  FailureFacts facts = facts_with({crash, worker(1, ExitStatus::exited(1), 200)}, 139);
  facts.workers[1].host = facts.run_id = facts.reason = bad;
  check_plain(report_text(facts));
  check_plain(torchrun_report_text(facts));
  facts.failed_elsewhere = bad;
  check_plain(report_text(facts));
  check_plain(torchrun_report_text(facts));
}

}  // namespace dtrain::launcher
