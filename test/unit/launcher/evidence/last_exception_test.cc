// What a worker's last lines and its blame file tell.
#include "launcher/evidence/last_exception.h"

#include <csignal>

#include "launcher/evidence/blame_file.h"
#include "test/support/catch.h"
#include "test/support/golden.h"

namespace dtrain::launcher {
namespace {

const ExitStatus kOne = ExitStatus::exited(1), kAborted = ExitStatus::signaled(SIGABRT, false);

}  // namespace

TEST_CASE("the exception of a Python traceback") {
  const std::vector<std::string> plain = {"epoch 1",
                                          "Traceback (most recent call last):",
                                          "  File \"t.py\", line 1, in f",
                                          "    raise ValueError('no')",
                                          "ValueError: no",
                                          "some warning at the end"};
  CHECK(exception_in(plain, kOne) == "ValueError: no");
  // torch.distributed names the rank in each line.
  CHECK(exception_in({"[rank1]: Traceback (most recent call last):", "[rank1]:   File \"t.py\", line 1",
                      "[rank1]: RuntimeError: boom"},
                     kOne) == "RuntimeError: boom");
  // The last of a chain.
  CHECK(exception_in({"Traceback (most recent call last):", "  File", "KeyError: 1", "",
                      "During handling of the above exception, another exception occurred:", "",
                      "Traceback (most recent call last):", "  File", "RuntimeError: second"},
                     kOne) == "RuntimeError: second");
  CHECK(exception_in({"nothing of the kind"}, kOne).empty());
  // A traceback that was printed and survived is not why it ended.
  CHECK(exception_in(plain, ExitStatus::exited(3)).empty());
  CHECK(exception_in(plain, ExitStatus::signaled(SIGSEGV, false)).empty());
}

TEST_CASE("an interpreter that aborts after its exception, as it is taken down, ended because of the exception") {
  const std::vector<std::string> traceback = {"[rank2]: Traceback (most recent call last):", "[rank2]:   File",
                                              "[rank2]: RuntimeError: Connection closed by peer"};
  auto lines = traceback;
  CHECK(exception_in(lines, kAborted) == "RuntimeError: Connection closed by peer");
  // It may have been caught hours ago, by a program that writes to stdout alone.
  for (const int signal : {SIGTERM, SIGKILL, SIGSEGV, SIGXCPU, SIGUSR1})
    CHECK(exception_in(lines, ExitStatus::signaled(signal, false)).empty());
  lines.emplace_back("terminate called without an active exception");
  CHECK(exception_in(lines, kAborted) == "RuntimeError: Connection closed by peer");
  lines.emplace_back("epoch 2");
  CHECK(exception_in(lines, kAborted).empty());
  // An abort that has a reason of its own.
  lines = traceback;
  lines.insert(lines.end(), {"terminate called after throwing an instance of 'int'"});
  CHECK(exception_in(lines, kAborted) == "int");
}

TEST_CASE("the exception of a C++ program that caught none") {
  CHECK(exception_in(
            {"terminate called after throwing an instance of 'std::runtime_error'", "  what():  cannot read shard 17"},
            kAborted) == "std::runtime_error: cannot read shard 17");
  CHECK(exception_in({"terminate called after throwing an instance of 'int'"}, kAborted) == "int");
  CHECK(exception_in({"[2] terminate called after throwing an instance of 'c10::Error'", "  what():  one", "more",
                      "  what():  of the same"},
                     kAborted) == "c10::Error: one");
  CHECK(exception_in({"terminate called without an active exception"}, kAborted).empty());
  CHECK(exception_in({"terminate called after throwing an instance of 'int'"}, kOne).empty());
}

TEST_CASE("the blame file as the training layer writes it") {
  const auto blame = parse_blame(test::read_golden("blame/blame_rank0.json"));
  REQUIRE(blame);
  CHECK(*blame == Blame{1, true, "left the job"});
  CHECK(blame_path("/x/attempt_0", 3) == "/x/attempt_0/blame_rank3.json");
  CHECK(blame_path("", 3).empty());
}

TEST_CASE("a blame file of other bytes blames nobody") {
  for (const char* text :
       {"", "[]", "{}", "1", "{\"because_of\": -2}", "{\"because_of\": 1.5}", "{\"because_of\": \"1\"}",
        "{\"because_of\": 99999999999}", "[[[[[[[[[[", "{\"because_of\": 1"})
    CHECK_FALSE(parse_blame(text));
  CHECK_FALSE(parse_blame("{\"because_of\": 1}" + std::string(5000, ' ')));
  CHECK(parse_blame("{\"because_of\": 1, \"ends\": 2, \"what\": []}") == Blame{1, true, ""});
  CHECK(take_blame_file("").rank == Blame::kNobody);
  CHECK(take_blame_file("/nowhere/blame_rank0.json").rank == Blame::kNobody);
}

TEST_CASE("blame in the text of an exception") {
  const auto blame = blame_in(
      "RuntimeError: dtrain: group '1' (ranks 2, 3): collective 4 (all_reduce SUM of 3 float32): rank 3 (pid 12) left "
      "the job (its session ended)");
  CHECK(blame == Blame{3, true, "left the job"});
  CHECK(
      blame_in("dtrain::CollectiveError: dtrain: collective 4 (barrier): rank 1 (pid 9) did not arrive in time; it is "
               "stopped") == Blame{1, false, "did not arrive in time"});
  CHECK(blame_in("dtrain::CollectiveError: dtrain: collective 4: rank 1 (pid 9) made a call that does not fit: rank 0 "
                 "called barrier (shutdown()), rank 1 called broadcast 8 bytes from rank 0 (Ddp forward: buffers)") ==
        Blame{1, true, "made a call that does not fit"});
  CHECK(blame_in("RuntimeError: [/gloo/transport/tcp/pair.cc:538] Connection closed by peer [127.0.0.1]:9").rank ==
        Blame::kSomebody);
  // The first lines of Python's traceback, and of torch's watchdog in C++; and all of it on one.
  for (const char* text :
       {"torch.distributed.DistBackendError: NCCL error in: /torch/csrc/distributed/c10d/NCCLUtils.cpp:77, remote "
        "process "
        "exited or there was a network error, NCCL version 2.28.9",
        "c10::DistBackendError: [PG ID 0 PG GUID 0 Rank 1] Process group watchdog thread terminated with exception: "
        "NCCL "
        "error: remote process exited or there was a network error, NCCL version 2.28.9",
        "RuntimeError: NCCL error in: x.cpp:77, NCCL version 2.28.9 ncclRemoteError: A call failed possibly due to a "
        "network error or a remote process exiting prematurely."})
    CHECK(blame_in(text) == Blame{Blame::kSomebody, true, ""});
  // Of this rank itself.
  for (const char* text : {"torch.distributed.DistBackendError: NCCL error in: x.cpp:77, unhandled cuda error (run "
                           "with NCCL_DEBUG=INFO for "
                           "details), NCCL version 2.28.9",
                           "RuntimeError: remote process exited or there was a network error"})
    CHECK(blame_in(text).rank == Blame::kNobody);
  const Blame differs{12, true, "differs from the others"};
  CHECK(blame_in("dtrain::DivergedError: dtrain: Ddp needs the same module on all ranks, and rank 12 has another: 'w' "
                 "is Float [4] on rank 12, and Float [3] on rank 0") == differs);
  CHECK(
      blame_in("dtrain::DivergedError: dtrain: parameter 'a.weight' of rank 12, 13 differs from that of rank 0: a rank "
               "changed its own") == differs);
  for (const char* text : {"", "dtrain: no rank", "x rank -1", "x rank 99999999999", "x rank "})
    CHECK(blame_in("dtrain::DivergedError: " + std::string(text)).rank == Blame::kNobody);
  // A connection of its own.
  CHECK(blame_in("ConnectionResetError: [Errno 104] Connection reset by peer").rank == Blame::kNobody);
  for (const char* text :
       {"", "dtrain: rank", "dtrain: x: rank 1", "dtrain: x: rank 1 (pid", "dtrain: x: rank -4 (pid 1) died",
        "dtrain: x: rank 1 (pid 3) sleeps", "RuntimeError: rank 1 (pid 3) died"})
    CHECK(blame_in(text).rank == Blame::kNobody);
}

}  // namespace dtrain::launcher
