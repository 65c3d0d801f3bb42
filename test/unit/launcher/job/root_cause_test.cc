#include "launcher/job/root_cause.h"

#include <csignal>
#include <vector>

#include "test/support/catch.h"

namespace dtrain::launcher {
namespace {

using std::chrono::milliseconds;

Fate alive(int rank) { return {rank, std::nullopt}; }

Fate ended(int rank, ExitStatus status, int at_ms, int because_of = Blame::kNobody) {
  Fate fate{rank, status};
  fate.told.since = MonoTime{} + milliseconds(at_ms);
  fate.told.blame.rank = because_of;
  return fate;
}

Fate stopped(int rank, int at_ms) {
  Fate fate = ended(rank, ExitStatus::signaled(SIGTERM, false), at_ms);
  fate.told.stopped = true;
  return fate;
}

const ExitStatus kEndedWell = ExitStatus::exited(0), kExit1 = ExitStatus::exited(1), kExit3 = ExitStatus::exited(3);

int rank_at_fault(const std::vector<Fate>& fates, const Blame& accused = {}) {
  const auto cause = root_cause(fates, accused);
  return cause ? fates[cause->at].rank : -1;
}

}  // namespace

TEST_CASE("the first that failed by itself is to blame where nobody says more") {
  CHECK(rank_at_fault({alive(0), alive(1)}) == -1);
  CHECK(rank_at_fault({ended(0, kEndedWell, 1), stopped(1, 2)}) == -1);
  CHECK(rank_at_fault({ended(0, kExit1, 20), ended(1, kExit3, 10), stopped(2, 5)}) == 1);
  CHECK(rank_at_fault({ended(1, kExit1, 10), ended(0, kExit3, 10)}) == 0);
}

TEST_CASE("who is blamed by the first is to blame, however it ended and whether it has") {
  const Fate victim = ended(0, kExit1, 10, 1);
  for (const Fate& culprit :
       {alive(1), ended(1, kExit3, 20), ended(1, kEndedWell, 20), ended(1, kEndedWell, 5), stopped(1, 20)}) {
    const std::vector<Fate> fates = {victim, culprit, ended(2, kExit1, 11, 1)};
    const auto cause = root_cause(fates);
    REQUIRE(cause);
    CHECK(cause->at == 1);
    CHECK(cause->accusation.rank == 1);
    CHECK(cause->blame.rank == Blame::kNobody);
    CHECK(cause->failed == (culprit.failed_itself() ? 1 : 0));
  }
}

TEST_CASE("blame goes on from rank to rank, and a circle ends where it began") {
  CHECK(rank_at_fault({ended(0, kExit1, 10, 1), ended(1, kExit1, 11, 2), ended(2, kExit3, 12)}) == 2);
  CHECK(rank_at_fault({ended(0, kExit1, 10, 1), ended(1, kExit1, 11, 0)}) == 0);
  CHECK(rank_at_fault({ended(0, kExit1, 10, 1), ended(1, kExit1, 11, 2), ended(2, kExit1, 12, 1)}) == 0);
}

TEST_CASE("a rank of another node is pointed to from here") {
  const std::vector<Fate> fates = {ended(4, kExit1, 10, 9), ended(5, kExit1, 11, 9)};
  const auto cause = root_cause(fates);
  REQUIRE(cause);
  CHECK(cause->at == 0);
  CHECK(cause->blame.rank == 9);
}

TEST_CASE("who says only that somebody has gone comes after those who say nothing, and after those who left with 0") {
  constexpr int kSomebody = Blame::kSomebody;
  CHECK(rank_at_fault({ended(0, kExit1, 10, kSomebody), ended(1, kExit3, 12)}) == 1);
  CHECK(rank_at_fault({ended(0, kExit1, 10, kSomebody), ended(1, kEndedWell, 3), ended(2, kEndedWell, 5)}) == 2);
  CHECK(rank_at_fault({ended(0, kExit1, 10, kSomebody), ended(1, kEndedWell, 12), alive(2)}) == 0);
  CHECK(rank_at_fault({ended(0, kExit1, 10, kSomebody), ended(1, kExit1, 11, kSomebody)}) == 0);
  // Without such words it may have failed for a reason of its own.
  CHECK(rank_at_fault({ended(0, kExit1, 10), ended(1, kEndedWell, 3)}) == 0);
}

TEST_CASE("workers of other nodes may blame one that has not failed") {
  const Blame accused{1, true, "left the job"};
  const std::vector<Fate> fates = {alive(0), ended(1, kEndedWell, 3)};
  const auto cause = root_cause(fates, accused);
  REQUIRE(cause);
  CHECK(cause->at == 1);
  CHECK(cause->failed == 1);
  CHECK(describe_cause(fates[1], cause->accusation) == "ended with code 0 while others were in a collective");
  CHECK(rank_at_fault({alive(0), alive(1)}, Blame{7, true, ""}) == -1);
  // It may in turn blame another one.
  CHECK(rank_at_fault({ended(0, kExit3, 4), ended(1, kExit1, 5, 0)}, accused) == 0);
}

TEST_CASE("what is said of the worker to blame") {
  const Blame late{1, false, "did not arrive in time"};
  CHECK(describe_cause(ended(1, kExit3, 1), {}) == "exit code 3");
  CHECK(describe_cause(alive(1), late) == "did not arrive in time");
  CHECK(describe_cause(stopped(1, 1), late) == "did not arrive in time; stopped by dtrain (signal 15 (SIGTERM))");
}

}  // namespace dtrain::launcher
