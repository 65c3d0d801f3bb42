#include "launcher/replicas/replica_core.h"

#include <csignal>

#include "test/support/catch.h"

using dtrain::launcher::ReplicaCore;

TEST_CASE("a group that fails ends nobody else, and the job ends with its code") {
  ReplicaCore core(3);
  CHECK(core.ended(1, 3) == "group 1 has failed, exit code 3; 2 other groups go on");
  CHECK_FALSE(core.over());
  CHECK_FALSE(core.ended(0, 0));
  CHECK_FALSE(core.over());
  CHECK_FALSE(core.ended(2, 0));
  CHECK(core.over());
  CHECK(core.exit_code() == 3);
  CHECK(core.summary() == "1 of 3 groups failed (1), exit code 3");
}

TEST_CASE("of several groups that fail the first gives the exit code") {
  ReplicaCore core(2);
  CHECK(core.ended(1, 7) == "group 1 has failed, exit code 7; 1 other group goes on");
  CHECK_FALSE(core.ended(0, 3));  // nobody goes on: the summary follows
  CHECK(core.exit_code() == 7);
  CHECK(core.summary() == "2 of 2 groups failed (0, 1), exit code 7");
}

TEST_CASE("groups of a second node are called by their numbers in the job") {
  ReplicaCore core(2, 2);
  CHECK(core.ended(1, 7) == "group 3 has failed, exit code 7; 1 other group goes on");
  CHECK_FALSE(core.ended(0, 0));
  CHECK(core.summary() == "1 of 2 groups failed (3), exit code 7");
}

TEST_CASE("groups that all end well are a success without a word") {
  ReplicaCore core(2);
  CHECK_FALSE(core.ended(0, 0));
  CHECK_FALSE(core.ended(1, 0));
  CHECK(core.exit_code() == 0);
  CHECK_FALSE(core.summary());
  CHECK_FALSE(core.is_interrupted());
}

TEST_CASE("a group alone has said all in its own report") {
  ReplicaCore core(1);
  CHECK_FALSE(core.ended(0, 3));
  CHECK(core.exit_code() == 3);
  CHECK_FALSE(core.summary());
}

TEST_CASE("a group whose dtrain was killed is dtrain's own failure") {
  ReplicaCore core(2);
  CHECK(core.killed(0, SIGKILL) == "group 0 has ended: its dtrain was killed by SIGKILL; 1 other group goes on");
  CHECK_FALSE(core.ended(1, 0));
  CHECK(core.exit_code() == 125);
}

TEST_CASE("a stop gives the exit code, also after a failure") {
  ReplicaCore core(3);
  CHECK(core.ended(2, 3).has_value());
  core.stopped(SIGINT);
  CHECK_FALSE(core.ended(0, 130));
  CHECK_FALSE(core.ended(1, 130));
  CHECK(core.exit_code() == 130);
  CHECK(core.is_interrupted());
  CHECK_FALSE(core.summary());
}

TEST_CASE("a stop that came when all had ended with 0 leaves the code as it is") {
  ReplicaCore core(2);
  CHECK_FALSE(core.ended(0, 0));
  core.stopped(SIGTERM);
  CHECK_FALSE(core.ended(1, 0));
  CHECK(core.exit_code() == 0);
}

TEST_CASE("the first signal of a stop gives the exit code") {
  ReplicaCore core(2);
  core.stopped(SIGTERM);
  core.stopped(SIGINT);
  CHECK_FALSE(core.ended(0, 143));
  CHECK_FALSE(core.ended(1, 143));
  CHECK(core.exit_code() == 143);
  CHECK_FALSE(core.is_interrupted());
}

TEST_CASE("SIGTERM is no interrupt") {
  ReplicaCore core(1);
  core.stopped(SIGTERM);
  CHECK_FALSE(core.ended(0, 143));
  CHECK(core.exit_code() == 143);
  CHECK_FALSE(core.is_interrupted());
}
