#include "launcher/process/left_behind.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "launcher/process/sweep.h"
#include "test/support/catch.h"

using namespace dtrain::launcher;

TEST_CASE("what workers have left is named") {
  CHECK(left_text({}).empty());
  CHECK(too_late_text({}).empty());
  CHECK(left_text({{7, "sh", 0}}) == "rank 0 left 1 process behind (sh pid 7): ending it");
  CHECK(left_text({{7, "sh", 3}, {8, "sleep", 3}}) ==
        "rank 3 left 2 processes behind (sh pid 7, sleep pid 8): ending them");
  CHECK(left_text({{7, "a", 2}, {8, "b", 0}, {9, "c", 1}, {10, "d", {}}}) ==
        "ranks 0-2 left 4 processes behind (a pid 7, b pid 8, c pid 9, ...): ending them");
  CHECK(left_text({{7, "e\x1b[2J", {}}}) == "the workers left 1 process behind (e\\x1b[2J pid 7): ending it");
  CHECK(too_late_text({{7, "sh", 0}}) ==
        "1 process that workers had started (sh pid 7) did not end in time: killing it");
}

TEST_CASE("what is below a process is found, with rank and name") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const char* const environment[] = {"LOCAL_RANK=9", "RANK=4", nullptr};
    ::dup2(ends[0], 0);
    ::close(ends[1]);
    // The inner shell has another RANK, as workers of a launcher inside a worker have.
    ::execle("/bin/sh", "sh", "-c", "RANK=0 sh -c 'read x; :'; :", nullptr, environment);
    ::_exit(127);
  }
  ::close(ends[0]);
  std::vector<LeftBehind> left;
  while (left.size() < 2) left = left_below_with_ranks(::getpid());  // ends with the test's own time limit
  for (const LeftBehind& l : left) {
    CHECK(l.rank == 4);
    CHECK(l.name == "sh");
  }
  CHECK(left[0].pid == child);
  const auto found = look_below(::getpid());
  REQUIRE(found.size() == 2);
  CHECK(found[1].parent == child);
  CHECK(found[1].start >= found[0].start);
  ::close(ends[1]);
  ::waitpid(child, nullptr, 0);
}
